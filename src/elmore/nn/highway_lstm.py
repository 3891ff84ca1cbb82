"""Highway LSTM layers that read a sentence in alternating directions (He et al. 2017). A highway
carries the layer's input past the cell; a gate r decides how much of each is taken:

    i, f, o, r = σ(W x_t + U h_{t-1} + b)      c_t = f ∘ c_{t-1} + i ∘ g
    g          = tanh(W x_t + U h_{t-1} + b)   h_t = m ∘ (r ∘ o ∘ tanh(c_t) + (1 − r) ∘ (W_k x_t))

m is a dropout mask, one for all words of a sentence: what is dropped is not remembered either.
Sentences are packed: no layer computes anything for padding. Gradients are written by hand, which
is several times as fast as an autograd node per word.
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

_FROM_INPUT, _FROM_STATE = 6, 5  # blocks i, f, o, r, g; the highway only has the input


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
        return flat.index_copy(0, self.words, packed).unflatten(0, (n_rows, n_words))


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


class _Recurrence(torch.autograd.Function):
    """The equations above over (N, 6H), with U (5H, H) and m (B, H) -> (N, H)."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, recurrent: Tensor, keep: Tensor, sizes: Sequence[int]
    ) -> Tensor:
        hidden = recurrent.shape[1]
        gates = projected.new_empty(len(projected), _FROM_STATE * hidden)  # (N, 5H)
        cells, states = (projected.new_empty(len(projected), hidden) for _ in range(2))
        h = c = projected.new_zeros(sizes[0], hidden)
        turned, start = recurrent.t(), 0
        for n in sizes:
            now = slice(start, start + n)
            x, carried = projected[now].split([_FROM_STATE * hidden, hidden], dim=1)
            step = torch.addmm(x, h[:n], turned, out=gates[now])  # (n, 5H)
            step[:, : 4 * hidden].sigmoid_()
            step[:, 4 * hidden :].tanh_()
            i, f, o, r, g = step.split(hidden, dim=1)
            c = torch.mul(f, c[:n], out=cells[now]).addcmul_(i, g)
            y = torch.tanh(c).mul_(o)
            h = torch.lerp(carried, y, r, out=states[now]).mul_(keep[:n])
            start += n
        ctx.save_for_backward(projected, recurrent, keep, gates, cells, states)
        ctx.sizes = sizes
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        projected, recurrent, keep, gates, cells, states = ctx.saved_tensors
        hidden = recurrent.shape[1]
        d_projected = torch.empty_like(projected)  # (N, 6H)
        d_h = d_c = grad.new_zeros(0, hidden)  # of the sentences with a later word
        start, sizes = len(projected), ctx.sizes
        for t in range(len(sizes) - 1, -1, -1):
            n, later = sizes[t], len(d_h)
            start -= n
            now = slice(start, start + n)
            before = slice(start - sizes[t - 1], start - sizes[t - 1] + n)  # unused at t = 0
            i, f, o, r, g = gates[now].split(hidden, dim=1)
            squashed = torch.tanh(cells[now])
            d_state = grad[now].clone()
            d_state[:later] += d_h
            d_state *= keep[:n]
            d_y = d_state * r
            d_cell = d_y * o * (1 - squashed * squashed)
            d_cell[:later] += d_c
            d_i, d_f, d_o, d_r, d_g, d_carried = d_projected[now].split(hidden, dim=1)
            torch.mul(d_cell, g * i, out=d_i).mul_(1 - i)
            torch.mul(d_y, squashed * o, out=d_o).mul_(1 - o)
            carried = projected[now, _FROM_STATE * hidden :]
            torch.mul(d_state, o * squashed - carried, out=d_r).mul_(r * (1 - r))
            torch.mul(d_cell, i, out=d_g).mul_(1 - g * g)
            torch.sub(d_state, d_y, out=d_carried)
            d_c = d_cell * f
            if not t:  # there is neither a cell nor a state before the first word
                d_f.zero_()
                break
            torch.mul(d_c, cells[before], out=d_f).mul_(1 - f)
            d_h = d_projected[now, : _FROM_STATE * hidden] @ recurrent
        d_steps = d_projected[sizes[0] :, : _FROM_STATE * hidden]
        return d_projected, d_steps.t() @ _before(states, sizes), None, None


def _before(states: Tensor, sizes: Sequence[int]) -> Tensor:
    """The state before each packed word but the first ones: (N, H) -> (N − B, H)."""
    steps = zip(states.split(list(sizes)), sizes[1:], strict=False)
    return torch.cat([states[:0], *(step[:n] for step, n in steps)])
