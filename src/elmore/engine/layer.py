"""One LSTM layer without gradients, both directions, as `LSTMRunner` uses it. The compiled kernel
and plain PyTorch are two ways to compute its steps.
"""

# N places of the plan, T steps, B rows, D dim, C cells
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BLOCK = 512  # places whose input gates are computed together


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are read together. Their state is updated in place."""

    active: NDArray[np.int32]  # (T,), how many rows still read at each step
    h: Tensor  # (B, D)
    c: Tensor  # (B, C)


class Layer(ABC):
    """Outputs have no skip connection yet."""

    @abstractmethod
    def input_gates(self, direction: int, x: Tensor) -> Tensor:
        """x (N, D) -> gate sums (N, 4C), the recurrent part still missing."""

    @abstractmethod
    def fill(self, direction: int, x: Tensor, table: Tensor, numbers: Tensor) -> None:
        """The same, written to these rows of a table."""

    @abstractmethod
    def read_gates(
        self, direction: int, table: Tensor, numbers: Tensor | None, rows: Rows
    ) -> Tensor:
        """Place i has the input gates `table[numbers[i]]`, or `table[i]` -> outputs (N, D)."""

    def read(self, direction: int, x: Tensor, rows: Rows) -> Tensor:
        """x (N, D) -> outputs (N, D); input gates are computed for many steps at a time."""
        outputs, ends = torch.empty_like(x), np.cumsum(rows.active)
        start = first = 0
        while start < len(x):
            last = max(first + 1, int(np.searchsorted(ends, start + _BLOCK, side="right")))
            end, n = int(ends[last - 1]), int(rows.active[first])
            gates = self.input_gates(direction, x[start:end])
            some = Rows(rows.active[first:last], rows.h[:n], rows.c[:n])
            outputs[start:end] = self.read_gates(direction, gates, None, some)
            start, first = end, last
        return outputs
