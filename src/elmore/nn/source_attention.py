"""Where a decoder looks in the source: one set of weights, from the encoder's top states, takes the
means of its first and of its top states, side by side.

    a_ti = softmax_i(q_t · W top_i / √D)        context_t = Σ_i a_ti [first_i; top_i]
"""

# B sentences, T queries (steps, or hypotheses of one step), S source pieces, D query dim, M memory
# dim
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmore.nn.rounding import widened


@dataclass(frozen=True, slots=True)
class Memory:
    """An encoded source. It is computed once, and all steps and hypotheses look at it."""

    keys: Tensor  # (B, S, D)
    values: Tensor  # (B, S, M), first and top states side by side
    mask: Tensor  # (B, S), true where there is a piece
    ids: Tensor  # (B, S)

    def rows(self, rows: Tensor) -> "Memory":
        return Memory(self.keys[rows], self.values[rows], self.mask[rows], self.ids[rows])


class SourceAttention(nn.Module):
    """Scaled dot products with projected top states."""

    def __init__(self, top_dim: int, query_dim: int):
        super().__init__()
        self.key = nn.Linear(top_dim, query_dim, bias=False)

    def remember(self, first: Tensor, top: Tensor, mask: Tensor, ids: Tensor) -> Memory:
        return Memory(self.key(top), torch.cat([first, top], dim=-1), mask, ids)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """query (B, T, D) -> contexts (B, T, M), weights (B, T, S)."""
        scores = widened(query @ memory.keys.mT) / memory.keys.shape[-1] ** 0.5  # (B, T, S)
        scores = scores.masked_fill(~memory.mask.unsqueeze(1), -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ memory.values, weights


def copied(weights: Tensor, ids: Tensor, n_pieces: int) -> Tensor:
    """The probability of each piece if one of the source is copied: (B, T, S) -> (B, T, V)."""
    found = weights.new_zeros(*weights.shape[:2], n_pieces)
    return found.scatter_add(2, ids.unsqueeze(1).expand(-1, weights.shape[1], -1), weights)


def coverage_loss(weights: Tensor, real: Tensor) -> Tensor:
    """Σ_t Σ_i min(a_ti, Σ_{s<t} a_si): looking again at the same place costs. `real` (B, T)."""
    before = weights.cumsum(dim=1) - weights  # (B, T, S)
    return (torch.minimum(weights, before).sum(-1) * real).sum()
