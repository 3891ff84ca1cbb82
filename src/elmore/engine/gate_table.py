"""A word's input gates in the first layer do not depend on its context, so they are looked up in a
table instead of computed. Rows are long, so the table keeps only the most recently used words.
"""

# W words, D dim, C cells, S = 2 directions
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.engine.lru_rows import LruRows
from elmore.engine.threads import side_by_side
from elmore.nn.lstm import DIRECTIONS

TABLE_BYTES = 320_000_000
"""The size of the table: 2,441 words of the original model."""
_MAX_WORDS = 32_768
_CHUNK = 256  # words computed at once; limits memory beside the table


class GateTable:
    """From distinct words to rows of `gates`."""

    def __init__(
        self,
        like: Tensor,
        n_gates: int,
        fill: Callable[[int, Tensor, Tensor, Tensor], None],
        n_bytes: int = TABLE_BYTES,
    ):
        row_bytes = DIRECTIONS * n_gates * like.element_size()
        self.known = LruRows(max(1, min(_MAX_WORDS, n_bytes // row_bytes)))
        self._fill_rows = fill
        # Pages that are never written take no memory, so few words cost little.
        self.gates = [like.new_empty(self.known.capacity, n_gates) for _ in range(DIRECTIONS)]

    def rows(
        self, words: Sequence[str], vectors: Tensor, n_threads: int = 1
    ) -> NDArray[np.int64] | None:
        """The rows of distinct words with these vectors (W, D); None if they are too many."""
        if len(words) > self.known.capacity:
            return None
        rows, new = self.known.rows(words)
        size = max(1, -(-DIRECTIONS * len(new) // n_threads))  # one thread's share of one direction
        chunks = [new[start : start + size] for start in range(0, len(new), size)]

        def task(direction: int, chunk: list[int]) -> Callable[[], None]:
            return lambda: self._fill(direction, rows[chunk], vectors[chunk])

        try:
            tasks = [task(direction, chunk) for chunk in chunks for direction in (0, 1)]
            side_by_side(tasks, n_threads)
        except BaseException:
            self.known.forget()
            raise
        return rows

    def _fill(self, direction: int, rows: NDArray[np.int64], x: Tensor) -> None:
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            self._fill_rows(direction, x[part], self.gates[direction], torch.from_numpy(rows[part]))
