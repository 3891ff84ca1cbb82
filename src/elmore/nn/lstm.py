"""ELMo's LSTM: a projected state, both cell and projection clipped, layers joined by skips, and two
directions that never meet. One step of one direction, with x the input and σ the logistic function:

    i, f, g, o = W_input x + W_state h + bias
    c = clip(σ(f + forget_bias) · c + σ(i) · tanh(g), cell_clip)
    h = clip(W_project (σ(o) · tanh(c)), proj_clip)

The two directions are one tensor with a leading axis of 2, so a step is one batched product for
both. nn/lstm_autograd.py computes all steps of a layer, and their gradients.
"""

# S = 2 directions, T steps, B rows, D input and output dim, C cell dim, L layers
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.bf16_kernel import product_dtype
from elmore.nn.dropout import Dropout
from elmore.nn.lstm_autograd import all_steps
from elmore.nn.rnn import take

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
    """Added to the forget gate beside its learned bias; 0 if a format includes it in that bias."""
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

    def rows(self, n: int) -> "LSTMState":
        """The first n rows; rows that do not exist yet are zero."""
        pad = (0, 0, 0, max(0, n - self.h.shape[2]))
        return LSTMState(F.pad(self.h[:, :, :n], pad), F.pad(self.c[:, :, :n], pad))

    def with_first(self, rows: "LSTMState") -> "LSTMState":
        """The same state with its first rows replaced."""
        n = rows.h.shape[2]
        h = torch.cat([rows.h, self.h[:, :, n:]], dim=2)
        return LSTMState(h, torch.cat([rows.c, self.c[:, :, n:]], dim=2))


class LSTMLayer(nn.Module):
    """One layer, all directions: a biLM has two, a causal model one. Gates are in the order input,
    forget, candidate, output."""

    def __init__(
        self, config: LSTMConfig, directions: int = DIRECTIONS, input_dim: int | None = None
    ):
        """`input_dim` is `config.dim` unless it is given."""
        super().__init__()
        self.config = config
        gates, cell, dim = 4 * config.cell_dim, config.cell_dim, config.dim
        self.w_input = nn.Parameter(torch.empty(directions, gates, input_dim or dim))
        self.w_state = nn.Parameter(torch.empty(directions, gates, dim))
        self.bias = nn.Parameter(torch.empty(directions, gates))
        self.w_project = (
            nn.Parameter(torch.empty(directions, dim, cell)) if config.project else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The original initialization: Glorot uniform for input and state together, zero biases."""
        gates, dim, cell = 4 * self.config.cell_dim, self.config.dim, self.config.cell_dim
        bound = (6 / (self.w_input.shape[-1] + dim + gates)) ** 0.5
        nn.init.uniform_(self.w_input, -bound, bound)
        nn.init.uniform_(self.w_state, -bound, bound)
        nn.init.zeros_(self.bias)
        if self.w_project is not None:
            bound = (6 / (dim + cell)) ** 0.5
            nn.init.uniform_(self.w_project, -bound, bound)

    def forward(
        self, x: Tensor, h: Tensor, c: Tensor, active: list[int], kept: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """x (S, T, B, D), h (S, B, D), c (S, B, C) -> outputs (S, T, B, D), last h, last c. The
        weights from the state are multiplied by `kept` (S, 4C, D), if it is given."""
        clips = (self.config.cell_clip, self.config.proj_clip if self.config.project else None)
        w_state, products = (
            self.w_state if kept is None else self.w_state * kept,
            product_dtype(self.w_input),
        )
        with torch.autocast(x.device.type, enabled=False):
            weights = self.w_input, self.opened_bias(), w_state, self.w_project
            return all_steps(x.to(c.dtype), h, c, weights, active, clips, products)

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

        `active[t]` rows are still reading at step t; rows are sorted by decreasing length.
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
        step = torch.arange(x.shape[1], device=x.device)  # (T,)
        active = [int(n) for n in (sorted_lengths > step.unsqueeze(1)).sum(1)]
        flip = (sorted_lengths.unsqueeze(1) - 1 - step).clamp(min=0)  # (B, T), each row backwards
        x = x[order]
        both = torch.stack([x, take(x, flip)]).transpose(1, 2)  # (S, T, B, D)
        if state is not None:
            state = LSTMState(state.h[:, :, order], state.c[:, :, order])
        outputs, end = self.run(both, state, active)
        sides = (y.transpose(1, 2) for y in outputs)  # (S, B, T, D) each
        layers = [torch.cat([y[0], take(y[1], flip)], dim=-1)[back] for y in sides]
        return layers, LSTMState(end.h[:, :, back], end.c[:, :, back])

    def floors(self) -> list[list[nn.Parameter]]:
        """Parameters by layer, top first."""
        return [[*layer.parameters()] for layer in reversed(self.layers)]
