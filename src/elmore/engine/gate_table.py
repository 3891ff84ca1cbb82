"""Tables of fixed size for known words, in which the least recently used words make room for new
ones. A word's input gates in the first layer do not depend on its context, so they are looked up in
such a table instead of computed.
"""

# W words, D dim, C cells, S = 2 directions
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.engine.threads import side_by_side
from elmore.nn.lstm import DIRECTIONS

TABLE_BYTES = 320_000_000
"""The size of the table: 2,441 words of the original model."""
_MAX_WORDS = 32_768
_CHUNK = 256  # words computed at once; limits memory beside the table


class LruRows:
    """Rows by word; the table itself is elsewhere."""

    def __init__(self, capacity: int):
        assert capacity > 0
        self.capacity = capacity
        self._row_of: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, word: str) -> bool:
        return word in self._row_of

    def rows(self, words: Sequence[str]) -> tuple[NDArray[np.int64], list[int]]:
        """A row for each of these distinct words, and the places of those whose row is new."""
        assert len(words) <= self.capacity
        new: list[int] = []
        for i, word in enumerate(words):
            if word in self._row_of:
                self._row_of.move_to_end(word)
            else:
                new.append(i)
        for i in new:  # all known words have moved, so the oldest is not in `words`
            full = len(self._row_of) == self.capacity
            row = self._row_of.popitem(last=False)[1] if full else len(self._row_of)
            self._row_of[words[i]] = row
        return np.array([self._row_of[word] for word in words], dtype=np.int64), new

    def forget(self) -> None:
        """After a failure, when some rows may not have been filled."""
        self._row_of.clear()


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
