"""Which row of a table of fixed size belongs to which word. The least recently used words make room
for new ones.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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
