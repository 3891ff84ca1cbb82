"""How a causal model reads: the pieces of the words, after `<s>` if the model has such a mark. A
text longer than the model has positions is read in overlapping windows, and each piece is taken
from the first window that contains it: there it has the most context before it.
"""

# B inputs, R rows, T positions in the longest, P pieces of all words, W words of all
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmore.errors import InputError
from elmore.text.piece_reader import window_starts
from elmore.text.reader import Input, IntArray, Pair, Words
from elmore.text.subwords import Subwords


@dataclass(frozen=True, slots=True)
class CausalBatch:
    """Rows of pieces, padded with zeros. An input is one row, or several windows."""

    ids: IntArray  # (R, T)
    lengths: IntArray  # (R,), the mark included
    places: IntArray  # (P,), of each piece of a word in the rows one after another, 0 to RT - 1
    words: IntArray  # (P,), the word it belongs to, 0 to W - 1
    n_words: IntArray  # (B,)


class CausalReader:
    """Reads words for a causal model."""

    def __init__(
        self,
        subwords: Subwords,
        *,
        mark: bool = True,
        max_positions: int | None = None,
        backward: bool = False,
    ):
        self.subwords, self.max_positions, self.backward = subwords, max_positions, backward
        self._mark = [subwords.begin] if mark else []

    def read(self, inputs: Sequence[Input]) -> CausalBatch:
        pieces = [self.subwords.pieces(_one_text(item)) for item in inputs]
        rows: list[list[int]] = []
        at: list[tuple[IntArray, IntArray]] = []  # the row and the column of each piece
        for text in pieces:
            ids = in_reading_order([i for word in text for i in word], self.backward)
            starts, size = self._windows(len(ids))
            row, column = earliest_windows(len(ids), size, starts)
            if self.backward:
                order = _word_by_word([len(word) for word in text])
                row, column = row[order], column[order]
            at.append((row + len(rows), column + len(self._mark)))
            rows += [[*self._mark, *ids[start : start + size]] for start in starts]
        ids_of_rows, lengths = padded(rows)
        sizes = np.array([len(word) for text in pieces for word in text], dtype=np.int64)  # (W,)
        places = [row * ids_of_rows.shape[1] + column for row, column in at]
        return CausalBatch(
            ids=ids_of_rows,
            lengths=lengths,
            places=np.concatenate([np.zeros(0, np.int64), *places]),
            words=np.repeat(np.arange(len(sizes)), sizes),
            n_words=np.array([len(text) for text in pieces], dtype=np.int64),
        )

    def length(self, item: Input) -> int:
        """Of all windows together."""
        n = sum(map(len, self.subwords.pieces(_one_text(item))))
        starts, size = self._windows(n)
        return max(1, len(starts) * (min(n, size) + len(self._mark)))

    def _windows(self, n: int) -> tuple[list[int], int]:
        """Where they begin, and how many pieces they have."""
        if self.max_positions is None:
            return [0], max(1, n)
        size = self.max_positions - len(self._mark)
        return window_starts(n, size), size

    def cuts(self, word: str) -> bool:
        del word  # any number of pieces is read
        return False

    def unreadable(self, word: str) -> bool:
        return self.subwords.unknown(word)

    def files(self) -> dict[str, bytes]:
        return self.subwords.files()


def in_reading_order(ids: list[int], backward: bool) -> list[int]:
    """Of a whole text."""
    return ids[::-1] if backward else ids


def _word_by_word(sizes: Sequence[int]) -> IntArray:
    """The places of pieces that are read backward: words in the order of the text, and the pieces
    of a word in the order in which they are read."""
    ends = np.cumsum(sizes, dtype=np.int64)
    n = int(ends[-1]) if len(ends) else 0
    parts = [np.arange(n - end, n - end + size) for end, size in zip(ends, sizes, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def earliest_windows(n: int, size: int, starts: Sequence[int]) -> tuple[IntArray, IntArray]:
    """For each of `n` pieces, the first window that contains it, and the piece's place in it."""
    begins, place = np.array(starts, dtype=np.int64), np.arange(n)
    window = np.searchsorted(begins + size, place, side="right")  # (n,)
    return window, place - begins[window]


def padded(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Rows of different lengths as one array (B, T) with zeros at the ends, and the lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = np.zeros((len(rows), int(lengths.max(initial=1))), dtype=np.int64)
    for to, row in zip(ids, rows, strict=True):
        to[: len(row)] = row
    return ids, lengths


def _one_text(item: Input) -> Words:
    if isinstance(item, Pair):
        raise InputError("A causal model reads one text at a time, not a pair.")
    return item
