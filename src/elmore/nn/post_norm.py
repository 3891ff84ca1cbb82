"""BERT's Transformer: a position sees every other of its row, and each norm comes after the sum.

    a = LN(x + W_o attention(x))        y = LN(a + W_2 act(W_1 a))

Rows come without padding, one after another, with rows of equal length together: all products are
of real positions, and attention needs no mask.
"""

# N positions of all rows, b rows of one length, t that length, D dim, H heads, F feed-forward dim
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.nn.dot_attention import attend
from elmore.nn.dropout import Dropout

Activation = Literal["gelu", "gelu_new", "relu"]
"""`gelu` is the exact one, by erf; `gelu_new` is the approximation by tanh."""
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}

Group = tuple[int, int]
"""(b, t): so many rows of this length."""


class RowAttention(nn.Module):
    """Attention within each row; one product gives q, k and v."""

    def __init__(self, dim: int, n_heads: int, dropout: float):
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, groups: Sequence[Group]) -> Tensor:
        """What every head sees, side by side; `out` is applied to it afterward."""
        qkv = self.qkv(x).unflatten(-1, (3, self.n_heads, -1))  # (N, 3, H, D/H)
        dropout = self.dropout if self.training else 0.0
        mixed = [x[:0]]
        for rows, (b, t) in zip(qkv.split([b * t for b, t in groups]), groups, strict=True):
            q, k, v = rows.unflatten(0, (b, t)).permute(2, 0, 3, 1, 4)  # (b, H, t, D/H) each
            seen = attend(q, k, v, dropout)
            mixed.append(seen.transpose(1, 2).flatten(0, 1).flatten(1))  # (b t, D)
        return torch.cat(mixed)  # (N, D)


class PostNormBlock(nn.Module):
    """Attention, then a small network at each position."""

    def __init__(
        self,
        dim: int,
        n_heads: int,
        ff_dim: int,
        *,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
        norm_eps: float,
    ):
        super().__init__()
        self.attention = RowAttention(dim, n_heads, attention_dropout)
        self.norm_1 = nn.LayerNorm(dim, norm_eps)
        self.expand = nn.Linear(dim, ff_dim)
        self.activation: Activation = activation
        self.contract = nn.Linear(ff_dim, dim)
        self.norm_2 = nn.LayerNorm(dim, norm_eps)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, groups: Sequence[Group], places: Tensor | None = None) -> Tensor:
        """Of all positions, or of some places alone, which still see all others."""
        mixed = self.attention(x, groups)
        if places is not None:
            x, mixed = x.index_select(0, places), mixed.index_select(0, places)
        a = self.norm_1(x + self.dropout(self.attention.out(mixed)))
        grown = ACTIVATIONS[self.activation](self.expand(a))  # (N, F)
        y: Tensor = self.norm_2(a + self.dropout(self.contract(grown)))
        return y  # (N, D)
