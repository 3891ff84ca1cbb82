"""Highway LSTM layers that read a sentence in alternating directions (He et al. 2017). A highway
carries the layer's input past the cell; a gate r decides how much of each is taken:

    i, f, o, r = σ(W x_t + U h_{t-1} + b)      c_t = f ∘ c_{t-1} + i ∘ g
    g          = tanh(W x_t + U h_{t-1} + b)   h_t = m ∘ (r ∘ o ∘ tanh(c_t) + (1 − r) ∘ (W_k x_t))

m is a dropout mask, one for all words of a sentence: what is dropped is not remembered either.
Sentences are packed: no layer computes anything for padding. Gradients are written by hand
(highway_steps.py), which is several times as fast as an autograd node per word.
"""

# B sentences, T words in the longest, N words in all, n sentences that have a word at a step,
# D input dim, H hidden units
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.nn.dropout import Dropout
from elmore.nn.highway_steps import HighwayStep, steps_for

_FROM_INPUT, _FROM_STATE = 6, 5  # blocks i, f, o, r, g; the highway has the input alone


class Packing:
    """Sentences as rows of words without padding: the first words of all sentences, then their
    second words, and so on. The longest sentence comes first, so that those which still have a
    word at a step are the first ones of the step before."""

    def __init__(self, mask: Tensor):
        lengths = mask.sum(dim=1)  # (B,)
        order = lengths.argsort(descending=True, stable=True)
        reading = torch.arange(mask.shape[1], device=mask.device).unsqueeze(1) < lengths[order]
        self.shape = mask.shape
        self.sizes: list[int] = reading.sum(dim=1).tolist()  # n of every step
        steps, rows = reading.nonzero(as_tuple=True)  # (N,): of each word, in the packed order
        starts = torch.tensor([0, *accumulate(self.sizes)], device=mask.device)
        self.rows, self.steps = order[rows], steps  # (N,): its sentence, its place there
        self.words = self.rows * mask.shape[1] + steps  # (N,): its place in (B · T)
        self.turned = starts[lengths[order][rows] - 1 - steps] + rows  # (N,): read backwards

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, …) -> (N, …)."""
        return x.flatten(0, 1).index_select(0, self.words)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, …) -> (B, T, …), zero beyond each sentence's end."""
        n_rows, n_words = self.shape
        flat = packed.new_zeros(n_rows * n_words, *packed.shape[1:])
        return flat.index_copy(0, self.words, packed).view(n_rows, n_words, *packed.shape[1:])


class HighwayLSTM(nn.Module):
    """One layer, from the first word to the last."""

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0):
        super().__init__()
        self.hidden = hidden
        self.weight = nn.Parameter(torch.empty(_FROM_INPUT * hidden, dim))
        self.recurrent = nn.Parameter(torch.empty(_FROM_STATE * hidden, hidden))
        self.bias = nn.Parameter(torch.empty(_FROM_INPUT * hidden))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every block orthonormal by itself; forget gates open."""
        for block in (
            *self.weight.data.split(self.hidden),
            *self.recurrent.data.split(self.hidden),
        ):
            nn.init.orthogonal_(block)
        nn.init.zeros_(self.bias)
        self.bias.data[self.hidden : 2 * self.hidden] = 1.0

    def project(self, x: Tensor) -> Tensor:
        """x (…, D) -> what all blocks take from the input, (…, 6H)."""
        return F.linear(x, self.weight, self.bias)

    def forward(self, projected: Tensor, sizes: Sequence[int]) -> Tensor:
        """Packed words, n of them at each step: (N, 6H) -> (N, H)."""
        keep = self.dropout(projected.new_ones(sizes[0], self.hidden))  # (B, H)
        states: Tensor = _Recurrence.apply(projected, self.recurrent, keep, sizes)  # type: ignore[no-untyped-call]
        return states


class AlternatingLSTM(nn.Module):
    """Highway layers one above the other; the second, fourth … read from the last word."""

    def __init__(self, dim: int, hidden: int, n_layers: int, dropout: float = 0.0):
        super().__init__()
        layers = (HighwayLSTM(hidden if n else dim, hidden, dropout) for n in range(n_layers))
        self.layers = cast(Sequence[HighwayLSTM], nn.ModuleList(layers))

    @property
    def first(self) -> HighwayLSTM:
        return self.layers[0]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (B, T) -> (B, T, H), zero beyond each sentence's end."""
        packing = Packing(mask)
        return packing.unpack(self.above(self.first.project(packing.pack(x)), packing))

    def above(self, projected: Tensor, packing: Packing) -> Tensor:
        """Packed input that is already projected for the first layer, (N, 6H) -> (N, H)."""
        if not len(projected):
            return projected.new_zeros(0, self.first.hidden)
        x: Tensor = self.first(projected, packing.sizes)
        for layer in self.layers[1:]:
            x = layer(layer.project(x[packing.turned]), packing.sizes)  # each turns the words round
        return x if len(self.layers) % 2 else x[packing.turned]


class _Pass:
    """The numbers of all steps of a layer, of packed words."""

    def __init__(self, tensors: Sequence[Tensor], sizes: Sequence[int]):
        self.projected, self.keep, self.gates, self.cells, self.states = tensors
        self.sizes, self.starts = sizes, [0, *accumulate(sizes)]
        self._zero = self.cells.new_zeros(self.keep.shape)  # (B, H), before the first words

    def rows(self, t: int) -> slice:
        """The packed words of a step."""
        return slice(self.starts[t], self.starts[t + 1])

    def before(self, t: int, x: Tensor) -> Tensor:
        """States or cells of the step before, of the sentences that have a word now: (n, H)."""
        return (x[self.rows(t - 1)] if t else self._zero)[: self.sizes[t]]

    def step(self, t: int) -> HighwayStep:
        now, keep = self.rows(t), self.keep[: self.sizes[t]]
        before = self.before(t, self.cells)
        moved = (x[now] for x in (self.cells, self.states))
        return HighwayStep(self.projected[now], self.gates[now], before, keep, *moved)


class _Recurrence(torch.autograd.Function):
    """The equations above over (N, 6H), with U (5H, H) and m (B, H) -> (N, H)."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, recurrent: Tensor, keep: Tensor, sizes: Sequence[int]
    ) -> Tensor:
        from_state, hidden = recurrent.shape  # 5H, H
        made = (projected.new_empty(len(projected), d) for d in (from_state, hidden, hidden))
        tensors = (projected.contiguous(), keep.contiguous(), *made)
        layer, steps = _Pass(tensors, sizes), steps_for(projected, recurrent)
        for t in range(len(sizes)):
            step = layer.step(t)
            torch.mm(layer.before(t, layer.states), recurrent.t(), out=step.gates)  # (n, 5H)
            steps.forward(step)
        ctx.save_for_backward(recurrent, *tensors)
        ctx.sizes = sizes
        return layer.states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        recurrent, *tensors = ctx.saved_tensors
        layer, steps = _Pass(tensors, ctx.sizes), steps_for(grad, recurrent)
        n_steps, grad = len(layer.sizes), grad.contiguous()
        d_projected = torch.empty_like(layer.projected)  # (N, 6H)
        d_sums = d_projected[:, : len(recurrent)]  # (N, 5H)
        d_cell, d_state = grad.new_empty(layer.keep.shape), layer.states[:0]  # (B, H), (later, H)
        for t in range(n_steps - 1, -1, -1):
            now, mine = layer.rows(t), d_cell[: layer.sizes[t]]
            steps.backward(layer.step(t), grad[now], d_state, mine, d_projected[now])
            d_state = d_sums[now] @ recurrent if t else d_state
        before = [layer.before(t, layer.states) for t in range(n_steps)]
        return d_projected, d_sums.t() @ torch.cat(before), None, None
