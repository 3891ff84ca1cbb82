"""Highway LSTM layers that read a sentence in alternating directions (He et al. 2017). A highway
carries the layer's input past the cell; a gate r decides how much of each is taken:

    i, f, o, r = σ(W x_t + U h_{t-1} + b)      c_t = f ∘ c_{t-1} + i ∘ g
    g          = tanh(W x_t + U h_{t-1} + b)   h_t = m ∘ (r ∘ o ∘ tanh(c_t) + (1 − r) ∘ (W_k x_t))

m is a dropout mask, one for all words of a sentence: what is dropped is not remembered either.
Gradients are written by hand, which is several times as fast as an autograd node per word.
"""

# B sentences, T words in the longest, D input dim, H hidden units
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.nn.dropout import Dropout
from elmore.nn.rnn import mirror, take

_FROM_INPUT, _FROM_STATE = 6, 5  # blocks i, f, o, r, g; the highway only has the input


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

    def forward(self, projected: Tensor) -> Tensor:
        """(B, T, 6H) -> (B, T, H)."""
        keep = self.dropout(projected.new_ones(len(projected), self.hidden))  # (B, H)
        over_time = projected.transpose(0, 1).contiguous()  # (T, B, 6H)
        states: Tensor = _Recurrence.apply(over_time, self.recurrent, keep)  # type: ignore[no-untyped-call]
        return states.transpose(0, 1)


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
        return self.above(self.first.project(x), mask)

    def above(self, projected: Tensor, mask: Tensor) -> Tensor:
        """The same from the input that is already projected for the first layer, (B, T, 6H)."""
        if not mask.numel():
            return projected.new_zeros(*mask.shape, self.first.hidden)
        back = mirror(mask.sum(dim=1), mask.shape[1])  # (B, T)
        x: Tensor = self.first(projected)
        for layer in self.layers[1:]:
            x = layer(layer.project(take(x, back)))  # each turns the words round
        if len(self.layers) % 2 == 0:
            x = take(x, back)
        return x * mask.unsqueeze(-1).to(x.dtype)  # (B, T, H)


class _Recurrence(torch.autograd.Function):
    """The equations above over (T, B, 6H), with U (5H, H) and m (B, H) -> (T, B, H)."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, recurrent: Tensor, keep: Tensor) -> Tensor:
        n_words, n_rows = projected.shape[:2]
        hidden = recurrent.shape[1]
        # written over below: a copy, also where the slice is contiguous (a single word)
        gates = projected[:, :, : _FROM_STATE * hidden].clone(
            memory_format=torch.contiguous_format
        )  # (T, B, 5H)
        carried = projected[:, :, _FROM_STATE * hidden :]  # (T, B, H)
        cells, states = (projected.new_empty(n_words, n_rows, hidden) for _ in range(2))
        h = c = projected.new_zeros(n_rows, hidden)
        turned = recurrent.t()
        for t in range(n_words):
            step = gates[t].addmm_(h, turned)  # (B, 5H)
            step[:, : 4 * hidden].sigmoid_()
            step[:, 4 * hidden :].tanh_()
            i, f, o, r, g = step.split(hidden, dim=1)
            c = torch.mul(f, c, out=cells[t]).addcmul_(i, g)
            y = torch.tanh(c).mul_(o)
            h = torch.lerp(carried[t], y, r, out=states[t]).mul_(keep)
        ctx.save_for_backward(projected, recurrent, keep, gates, cells, states)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        projected, recurrent, keep, gates, cells, states = ctx.saved_tensors
        n_words, n_rows, hidden = states.shape
        carried = projected[:, :, _FROM_STATE * hidden :]
        d_projected = torch.empty_like(projected)  # (T, B, 6H)
        d_gates = torch.empty_like(gates)  # (T, B, 5H), contiguous for the products below
        zero = grad.new_zeros(n_rows, hidden)
        d_h, d_c = zero, zero.clone()
        for t in range(n_words - 1, -1, -1):
            i, f, o, r, g = gates[t].split(hidden, dim=1)
            before = cells[t - 1] if t else zero
            squashed = torch.tanh(cells[t])
            d_h = (d_h + grad[t]) * keep
            d_y = d_h * r
            d_projected[t, :, _FROM_STATE * hidden :] = d_h - d_y
            d_c = d_c + d_y * o * (1 - squashed * squashed)
            step = d_gates[t]
            torch.mul(d_c, g, out=step[:, :hidden])
            torch.mul(d_c, before, out=step[:, hidden : 2 * hidden])
            torch.mul(d_y, squashed, out=step[:, 2 * hidden : 3 * hidden])
            torch.mul(d_h, o * squashed - carried[t], out=step[:, 3 * hidden : 4 * hidden])
            torch.mul(d_c, i, out=step[:, 4 * hidden :])
            sigmoid, tanh = gates[t, :, : 4 * hidden], g
            step[:, : 4 * hidden].mul_(sigmoid * (1 - sigmoid))
            step[:, 4 * hidden :].mul_(1 - tanh * tanh)
            d_c = d_c * f
            d_h = step @ recurrent
        d_projected[:, :, : _FROM_STATE * hidden] = d_gates
        later = d_gates[1:].flatten(0, 1)  # the first word has no state before it
        return d_projected, later.t() @ states[:-1].flatten(0, 1), None
