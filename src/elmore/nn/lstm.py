"""ELMo's LSTM: a projected state, both cell and projection clipped, layers joined by skips, and two
directions that never meet. The two directions are one tensor with a leading axis of 2, so a step is
one batched product for both. Gradients are written out by hand: a step of autograd is ten nodes.
"""

# S = 2 directions, T steps, B rows, D input and output dim, C cell dim, L layers
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from elmore.nn.dropout import Dropout
from elmore.nn.mirror import take

DIRECTIONS = 2


class LSTMConfig(BaseModel):
    """The recurrent half of an ELMo. Defaults are the published 2018 model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["lstm"] = "lstm"
    dim: int = Field(default=512, ge=1)
    cell_dim: int = Field(default=4096, ge=1)
    """Equal to `dim`: no projection."""
    n_layers: int = Field(default=2, ge=1, le=1000)
    cell_clip: float | None = Field(default=3.0, gt=0.0, allow_inf_nan=False)
    proj_clip: float | None = Field(default=3.0, gt=0.0, allow_inf_nan=False)
    """On the projected output; without a projection there is nothing to clip."""
    skip: bool = True
    """Each layer but the first adds its input to its output."""
    forget_bias: float = Field(default=1.0, allow_inf_nan=False)
    """Added to the forget gate beside its learnt bias; 0 where a format has folded it in."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On the input of every layer, in training."""

    @property
    def project(self) -> bool:
        return self.cell_dim != self.dim


@dataclass(frozen=True, slots=True)
class LSTMState:
    """What the rows remember: every layer and direction, projected output and cell."""

    h: Tensor  # (L, S, B, D)
    c: Tensor  # (L, S, B, C)

    def detach(self) -> "LSTMState":
        return LSTMState(self.h.detach(), self.c.detach())


class LSTMLayer(nn.Module):
    """One layer, both directions. Gates stand in the order input, forget, candidate, output."""

    def __init__(self, config: LSTMConfig):
        super().__init__()
        self.config = config
        gates, cell, dim = 4 * config.cell_dim, config.cell_dim, config.dim
        self.w_input = nn.Parameter(torch.empty(DIRECTIONS, gates, dim))
        self.w_state = nn.Parameter(torch.empty(DIRECTIONS, gates, dim))
        self.bias = nn.Parameter(torch.empty(DIRECTIONS, gates))
        self.w_project = (
            nn.Parameter(torch.empty(DIRECTIONS, dim, cell)) if config.project else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As the original began: Glorot's uniform over input and state together, biases zero."""
        gates, dim, cell = 4 * self.config.cell_dim, self.config.dim, self.config.cell_dim
        bound = (6 / (2 * dim + gates)) ** 0.5
        nn.init.uniform_(self.w_input, -bound, bound)
        nn.init.uniform_(self.w_state, -bound, bound)
        nn.init.zeros_(self.bias)
        if self.w_project is not None:
            bound = (6 / (dim + cell)) ** 0.5
            nn.init.uniform_(self.w_project, -bound, bound)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, active: list[int]) -> tuple[Tensor, ...]:
        """x (S, T, B, D), h (S, B, D), c (S, B, C) -> outputs (S, T, B, D), last h, last c."""
        clips = (self.config.cell_clip, self.config.proj_clip if self.config.project else None)
        w_input, w_state, w_project = self._product_weights(x.device.type)
        with torch.autocast(x.device.type, enabled=False):
            weights = w_input, self.opened_bias(), w_state, w_project
            out: tuple[Tensor, ...] = _Layer.apply(x.to(c.dtype), h, c, *weights, active, clips)  # type: ignore[no-untyped-call]
        return out

    def _product_weights(self, device: str) -> tuple[Tensor, Tensor, Tensor | None]:
        """The matrices as the products take them: rounded under autocast, else as they are."""
        weights = self.w_input, self.w_state, self.w_project
        if not torch.is_autocast_enabled(device):
            return weights
        dtype = torch.get_autocast_dtype(device)
        return tuple(None if w is None else w.to(dtype) for w in weights)  # type: ignore[return-value]

    def opened_bias(self) -> Tensor:
        opening = torch.zeros_like(self.bias)
        opening[:, self.config.cell_dim : 2 * self.config.cell_dim] = self.config.forget_bias
        return self.bias + opening  # (S, 4C)


class BiLSTM(nn.Module):
    """The stack of layers. Row b reads `lengths[b]` steps; then its state stays as it is."""

    def __init__(self, config: LSTMConfig):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LSTMLayer(config) for _ in range(config.n_layers))
        self.dropout = Dropout(config.dropout)

    def zero_state(self, n_rows: int) -> LSTMState:
        like, shape = next(self.parameters()), (self.config.n_layers, DIRECTIONS, n_rows)
        h = like.new_zeros(*shape, self.config.dim)
        return LSTMState(h, like.new_zeros(*shape, self.config.cell_dim))

    def run(
        self, x: Tensor, state: LSTMState | None = None, active: list[int] | None = None
    ) -> tuple[list[Tensor], LSTMState]:
        """Each direction in its own reading order: x (S, T, B, D) -> a tensor like it per layer.

        `active[t]` rows are still reading at step t; rows stand by falling length.
        """
        n_steps, n_rows = x.shape[1:3]
        state = self.zero_state(n_rows) if state is None else state
        active = [n_rows] * n_steps if active is None else active
        outputs, hs, cs = [], [], []
        for i, layer in enumerate(self.layers):
            x = self.dropout(x)  # the skip adds the input as the layer saw it
            y, h, c = layer(x, state.h[i], state.c[i], active)
            x = y + x if self.config.skip and i > 0 else y
            outputs.append(x)
            hs.append(h)
            cs.append(c)
        return outputs, LSTMState(torch.stack(hs), torch.stack(cs))

    def forward(
        self, x: Tensor, lengths: Tensor, state: LSTMState | None = None
    ) -> tuple[list[Tensor], LSTMState]:
        """Sentences as they are written: x (B, T, D) -> (B, T, 2D) per layer, forward first."""
        order = torch.argsort(lengths, descending=True, stable=True)
        back = torch.argsort(order)
        sorted_lengths = lengths[order]
        active = [int(n) for n in (sorted_lengths > _steps(x.shape[1], x)).sum(1)]
        flip = _reversal(sorted_lengths, x.shape[1])  # (B, T)
        x = x[order]
        both = torch.stack([x, take(x, flip)]).transpose(1, 2)  # (S, T, B, D)
        if state is not None:
            state = LSTMState(state.h[:, :, order], state.c[:, :, order])
        outputs, end = self.run(both, state, active)
        layers = [_side_by_side(y.transpose(1, 2), flip)[back] for y in outputs]
        return layers, LSTMState(end.h[:, :, back], end.c[:, :, back])


def _steps(n: int, like: Tensor) -> Tensor:
    return torch.arange(n, device=like.device).unsqueeze(1)  # (T, 1)


def _reversal(lengths: Tensor, n_steps: int) -> Tensor:
    """For each row, the positions that read it backwards within its own length."""
    step = torch.arange(n_steps, device=lengths.device)
    return (lengths.unsqueeze(1) - 1 - step).clamp(min=0)  # (B, T)


def _side_by_side(y: Tensor, flip: Tensor) -> Tensor:
    """(S, B, T, D), each direction in its own order -> (B, T, 2D) in the order of the text."""
    return torch.cat([y[0], take(y[1], flip)], dim=-1)


class _Layer(torch.autograd.Function):
    """All steps of one layer, both directions. Clipped numbers pass no gradient.

    One large buffer: what the inputs give to the gates becomes, step by step, the gates. Products
    are made in the dtype of the weights; sums, cells and gates stay in the dtype of the input.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        w_input: Tensor,
        bias: Tensor,
        w_state: Tensor,
        w_project: Tensor | None,
        active: list[int],
        clips: tuple[float | None, float | None],
    ) -> tuple[Tensor, Tensor, Tensor]:
        training = any(ctx.needs_input_grad)
        acts = _plus_product(bias.unsqueeze(1), x.flatten(1, 2), w_input.mT)
        acts = acts.unflatten(1, x.shape[1:3])  # (S, T, B, 4C)
        h0, c0, h, c = h, c, h.clone(), c.clone()
        outputs = _blank(x, h.shape[-1], active)  # (S, T, B, D)
        cells = _blank(x, c.shape[-1], active) if training else None  # (S, T, B, C)
        for t, n in enumerate(active):
            z = _add_product(acts[:, t, :n], h[:, :n], w_state.mT)  # (S, n, 4C)
            cell, out = _step(z, c[:, :n], w_project, clips)
            c[:, :n], h[:, :n], outputs[:, t, :n] = cell, out, out
            if cells is not None:
                cells[:, t, :n] = cell
        if training:
            ctx.save_for_backward(x, h0, c0, w_input, w_state, w_project, acts, cells, outputs)
        ctx.active, ctx.clips = active, clips
        return outputs, h, c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_outputs, dh, dc = grads
        x, h0, c0, w_input, w_state, w_project, acts, cells, outputs = ctx.saved_tensors
        cell_clip, proj_clip = ctx.clips
        dh, dc = dh.clone(), dc.clone()
        d_gates = _blank(x, acts.shape[-1], ctx.active)  # (S, T, B, 4C)
        d_projected = _blank(x, outputs.shape[-1], ctx.active)  # (S, T, B, D)
        for t, n in reversed(list(enumerate(ctx.active))):
            d_out = (dh[:, :n] + d_outputs[:, t, :n]).mul_(_unclipped(outputs[:, t, :n], proj_clip))
            d_projected[:, t, :n] = d_out
            d_hidden = d_out if w_project is None else _product(d_out, w_project)  # (S, n, C)
            before = c0[:, :n] if t == 0 else cells[:, t - 1, :n]
            step = acts[:, t, :n], cells[:, t, :n], before
            dz = d_gates[:, t, :n]
            dc[:, :n] = _step_backward(d_hidden, dc[:, :n], *step, cell_clip, dz)
            dh[:, :n] = _product(dz, w_state)
        d_bias = d_gates.sum((1, 2))  # (S, 4C)
        low = w_input.dtype
        flat = d_gates.flatten(1, 2).to(low)  # (S, T·B, 4C)
        before_h = torch.cat([h0.unsqueeze(1), outputs[:, :-1]], dim=1)  # (S, T, B, D)
        d_state = torch.bmm(flat.mT, before_h.flatten(1, 2).to(low))  # (S, 4C, D)
        d_input = torch.bmm(flat.mT, x.flatten(1, 2).to(low))  # (S, 4C, D)
        d_x = _product(flat, w_input, x.dtype).unflatten(1, x.shape[1:3])  # (S, T, B, D)
        d_project = None
        if w_project is not None:
            hidden = acts.chunk(4, dim=-1)[3] * torch.tanh(cells)  # (S, T, B, C)
            d_project = torch.bmm(
                d_projected.flatten(1, 2).to(low).mT, hidden.flatten(1, 2).to(low)
            )
        return d_x, dh, dc, d_input, d_bias, d_state, d_project, None, None


def _product(a: Tensor, w: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.bmm(a.to(w.dtype), w).to(dtype or a.dtype)


def _plus_product(bias: Tensor, a: Tensor, w: Tensor) -> Tensor:
    return torch.baddbmm(bias, a, w) if a.dtype == w.dtype else bias + torch.bmm(a.to(w.dtype), w)


def _add_product(z: Tensor, a: Tensor, w: Tensor) -> Tensor:
    """In place."""
    if a.dtype == w.dtype:
        return z.baddbmm_(a, w)
    return z.add_(torch.bmm(a.to(w.dtype), w))


def _blank(like: Tensor, dim: int, active: list[int]) -> Tensor:
    """(S, T, B, dim) to be filled; zeros where rows end early and nothing will be."""
    shape = (*like.shape[:3], dim)
    return like.new_empty(shape) if active[-1] == like.shape[2] else like.new_zeros(shape)


def _step(
    z: Tensor, c: Tensor, w_project: Tensor | None, clips: tuple[float | None, float | None]
) -> tuple[Tensor, Tensor]:
    """Gate sums z (S, n, 4C), which become the gates in place -> new cell and new output."""
    i_f, g, o = z.split([2 * c.shape[-1], c.shape[-1], c.shape[-1]], dim=-1)
    i_f.sigmoid_(), g.tanh_(), o.sigmoid_()
    i, f = i_f.chunk(2, dim=-1)
    cell = _clipped(torch.addcmul(f * c, i, g), clips[0])  # (S, n, C)
    hidden = torch.tanh(cell).mul_(o)
    out = hidden if w_project is None else _product(hidden, w_project.mT)
    return cell, _clipped(out, clips[1])  # (S, n, D)


def _step_backward(
    d_hidden: Tensor,
    dc: Tensor,
    acts: Tensor,
    cell: Tensor,
    before: Tensor,
    clip: float | None,
    out: Tensor,
) -> Tensor:
    """Back through one step: gradients of the gate sums into `out` (S, n, 4C), the cell's back."""
    i, f, g, o = acts.chunk(4, dim=-1)
    d_i, d_f, d_g, d_o = out.chunk(4, dim=-1)
    squashed = torch.tanh(cell)
    torch.mul(d_hidden, squashed, out=d_o).mul_(o * (1 - o))
    dc = torch.addcmul(dc, d_hidden.mul(o), 1 - squashed.square_()).mul_(_unclipped(cell, clip))
    torch.mul(dc, g, out=d_i).mul_(i * (1 - i))
    torch.mul(dc, before, out=d_f).mul_(f * (1 - f))
    torch.mul(dc, i, out=d_g).mul_(1 - g.square())
    return dc.mul_(f)


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp_(-clip, clip)


def _unclipped(x: Tensor, clip: float | None) -> Tensor | float:
    return 1.0 if clip is None else (x.abs() < clip).to(x.dtype)
