"""ELMo's LSTM: a projected state, both cell and projection clipped, layers joined by skips, and two
directions that never meet. The two directions are one tensor with a leading axis of 2, so a step is
one batched product for both. Gradients are written out by hand: a step of autograd is ten nodes.
"""

# S = 2 directions, T steps, B rows, D input and output dim, C cell dim, L layers
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.dropout import Dropout
from elmore.nn.lstm_steps import NativeSteps, Step, TorchSteps, find_native
from elmore.nn.mirror import take

DIRECTIONS = 2


class LSTMConfig(Frozen):
    """The recurrent half of an ELMo. Defaults are the published 2018 model."""

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
            x, weights = x.to(c.dtype), (w_input, self.opened_bias(), w_state, w_project)
            how = active, clips, _steps_for(x, h, c, w_input)
            out: tuple[Tensor, ...] = _Layer.apply(x, h, c, *weights, *how)  # type: ignore[no-untyped-call]
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

    def floors(self) -> list[list[nn.Parameter]]:
        """Parameters by layer, top first."""
        return [[*layer.parameters()] for layer in reversed(self.layers)]


def _steps(n: int, like: Tensor) -> Tensor:
    return torch.arange(n, device=like.device).unsqueeze(1)  # (T, 1)


def _reversal(lengths: Tensor, n_steps: int) -> Tensor:
    """For each row, the positions that read it backwards within its own length."""
    step = torch.arange(n_steps, device=lengths.device)
    return (lengths.unsqueeze(1) - 1 - step).clamp(min=0)  # (B, T)


def _side_by_side(y: Tensor, flip: Tensor) -> Tensor:
    """(S, B, T, D), each direction in its own order -> (B, T, 2D) in the order of the text."""
    return torch.cat([y[0], take(y[1], flip)], dim=-1)


def _steps_for(*tensors: Tensor) -> TorchSteps | NativeSteps:
    """The kernel where it is built, for float32 on the CPU; PyTorch for all else."""
    fits = all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    return (find_native() if fits else None) or TorchSteps()


class _Layer(torch.autograd.Function):
    """All steps of one layer, both directions. Clipped numbers pass no gradient.

    The rows of all steps stand packed, one step after the other: N = Σ active. One large buffer:
    what the inputs give to the gates becomes, step by step, the gates. Products are made in the
    dtype of the weights; sums, cells and gates stay in the dtype of the input.
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
        steps: TorchSteps | NativeSteps,
    ) -> tuple[Tensor, Tensor, Tensor]:
        training = any(ctx.needs_input_grad)
        h0, c0, n_rows, packed = h.contiguous(), c.contiguous(), x.shape[2], _packed(x, active)
        gates = steps.gate_sums(packed, w_input, bias)  # (S, N, 4C)
        outputs = torch.empty_like(packed)  # (S, N, D)
        # What is not kept for the way back is written over by the next step: (S, N or B, C).
        cells = c0.new_empty(*gates.shape[:2], c.shape[-1]) if training else c0.clone()
        hidden = outputs if w_project is None else torch.empty_like(cells)
        to_gates = _laid_out(w_state.mT, len(active))
        to_output = None if w_project is None else _laid_out(w_project.mT, len(active))
        h, c = h0, c0
        for rows, n in zip(_spans(active), active, strict=True):
            here = rows if training else slice(n)
            out, z = outputs[:, rows], _add_product(gates[:, rows], h[:, :n], to_gates)
            shown = out if to_output is None else hidden[:, here]
            steps.forward(Step(z, c[:, :n], cells[:, here], shown, clips[0]), bias)
            if to_output is not None:
                _set_product(out, shown, to_output)
            if clips[1] is not None:
                out.clamp_(-clips[1], clips[1])
            h, c = out, cells[:, here]
        if training:
            saved = packed, h0, c0, w_input, w_state, w_project, gates, cells, hidden, outputs
            ctx.save_for_backward(*saved)
        ctx.active, ctx.clips, ctx.steps = active, clips, steps
        c_end = _ends(c0, cells, active) if training else cells
        return _unpacked(outputs, active, n_rows), _ends(h0, outputs, active), c_end

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        packed, h0, c0, w_input, w_state, w_project, gates, cells, hidden, outputs = (
            ctx.saved_tensors
        )
        active, (cell_clip, proj_clip), spans = ctx.active, ctx.clips, _spans(ctx.active)
        dh, dc = (g.clone(memory_format=torch.contiguous_format) for g in grads[1:])
        d_out = _packed(grads[0], active).clone(memory_format=torch.contiguous_format)  # (S, N, D)
        unclipped = None if proj_clip is None else outputs.abs() < proj_clip
        d_gates = torch.empty_like(gates)  # (S, N, 4C)
        for t, n in reversed(list(enumerate(active))):
            rows, dz = spans[t], d_gates[:, spans[t]]
            d_shown = d_out[:, rows].add_(dh[:, :n])
            if unclipped is not None:
                d_shown.mul_(unclipped[:, rows])
            if w_project is not None:
                d_shown = _product(d_shown, w_project)  # (S, n, C)
            before = (cells[:, spans[t - 1]] if t else c0)[:, :n]
            step = Step(gates[:, rows], before, cells[:, rows], hidden[:, rows], cell_clip)
            ctx.steps.backward(step, d_shown, dc[:, :n], dz)
            _set_product(dh[:, :n], dz, w_state)
        low = w_input.dtype
        d_bias, flat = d_gates.sum(1), d_gates.to(low)
        befores = [h0, *(outputs[:, rows] for rows in spans)]
        before_h = torch.cat([h[:, :n] for h, n in zip(befores, active, strict=False)], dim=1)
        d_state = torch.bmm(flat.mT, before_h.to(low))  # (S, 4C, D)
        d_input = torch.bmm(flat.mT, packed.to(low))  # (S, 4C, D)
        d_x = _unpacked(_product(flat, w_input, packed.dtype), active, h0.shape[1])
        d_project = None
        if w_project is not None:
            d_project = torch.bmm(d_out.to(low).mT, hidden.to(low))  # (S, D, C)
        return d_x, dh, dc, d_input, d_bias, d_state, d_project, None, None, None


def _product(a: Tensor, w: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.bmm(a.to(w.dtype), w).to(dtype or a.dtype)


def _add_product(z: Tensor, a: Tensor, w: Tensor) -> Tensor:
    """In place."""
    if a.dtype == w.dtype:
        return z.baddbmm_(a, w)
    return z.add_(torch.bmm(a.to(w.dtype), w))


def _set_product(z: Tensor, a: Tensor, w: Tensor) -> None:
    """In place; `out=` would make a copy of what is not in one piece."""
    if a.dtype == w.dtype:
        z.baddbmm_(a, w, beta=0)
    else:
        z.copy_(torch.bmm(a.to(w.dtype), w))


def _laid_out(w: Tensor, n_steps: int) -> Tensor:
    """A transposed matrix as CPUs multiply it faster, if there are steps enough to win it back."""
    return w.contiguous() if w.device.type == "cpu" and n_steps >= 8 else w


def _spans(active: list[int]) -> list[slice]:
    """Where the rows of each step stand among the packed ones."""
    return [slice(end - n, end) for n, end in zip(active, accumulate(active), strict=True)]


def _packed(x: Tensor, active: list[int]) -> Tensor:
    """(S, T, B, D) -> (S, N, D), the rows that are read; x itself if all are."""
    if active[-1] == x.shape[2]:
        return x.flatten(1, 2)
    return torch.cat([x[:, t, :n] for t, n in enumerate(active)], dim=1)


def _unpacked(packed: Tensor, active: list[int], n_rows: int) -> Tensor:
    """Back again, with zeros where rows have ended."""
    if active[-1] == n_rows:
        return packed.view(packed.shape[0], len(active), n_rows, packed.shape[2])
    x = packed.new_zeros(packed.shape[0], len(active), n_rows, packed.shape[2])
    for t, (rows, n) in enumerate(zip(_spans(active), active, strict=True)):
        x[:, t, :n] = packed[:, rows]
    return x


def _ends(first: Tensor, packed: Tensor, active: list[int]) -> Tensor:
    """Each row's last: first (S, B, D) where it read nothing."""
    end = first.clone()
    for rows, n, more in zip(_spans(active), active, [*active[1:], 0], strict=True):
        end[:, more:n] = packed[:, rows][:, more:]
    return end
