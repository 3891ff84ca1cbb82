"""The rows of an LSTM layer without padding, one step after the other: N = Σ active."""

# S = 1 or 2 directions, T steps, B rows, N rows of all steps, D dim
from itertools import accumulate

import torch
from torch import Tensor

Clips = tuple[float | None, float | None]
"""Of the cell, and of the projection."""
Weights = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""From the input, the bias, from the state, the projection."""


def spans_of(active: list[int]) -> list[slice]:
    """Where the rows of each step are among the packed ones."""
    return [slice(end - n, end) for n, end in zip(active, accumulate(active), strict=True)]


def pack(x: Tensor, active: list[int]) -> Tensor:
    """(S, T, B, D) -> (S, N, D), the rows that are read; x itself if all are."""
    if active[-1] == x.shape[2]:
        return x.flatten(1, 2)
    return torch.cat([x[:, t, :n] for t, n in enumerate(active)], dim=1)


def unpack(packed: Tensor, active: list[int], n_rows: int) -> Tensor:
    """Back again, with zeros where rows have ended."""
    if active[-1] == n_rows:
        whole: Tensor = packed.unflatten(1, (len(active), n_rows))
        return whole
    x = packed.new_zeros(packed.shape[0], len(active), n_rows, packed.shape[2])
    for t, (rows, n) in enumerate(zip(spans_of(active), active, strict=True)):
        x[:, t, :n] = packed[:, rows]
    return x


def ends_of(first: Tensor, packed: Tensor, active: list[int]) -> Tensor:
    """The last of each row; `first` (S, B, D) for rows that read nothing."""
    end = first.clone()
    for rows, n, more in zip(spans_of(active), active, [*active[1:], 0], strict=True):
        end[:, more:n] = packed[:, rows][:, more:]
    return end
