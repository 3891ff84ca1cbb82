"""How a BERT reads: words as pieces between `[CLS]` and `[SEP]`, two texts as two segments. A text
longer than the model has positions is read in overlapping windows, and each piece is taken from the
window in which it has the most context.
"""

# B inputs, W words of all, P pieces of all words, R rows, N positions of all rows
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmore.errors import ConfigError, InputError
from elmore.text.reader import Input, IntArray, Pair, Words
from elmore.text.wordpiece import WordPiece

MIN_POSITIONS = 5
"""Three marks and a piece of either text."""


@dataclass(frozen=True, slots=True)
class PieceBatch:
    """Rows of pieces with their marks, one after another without padding, shortest first, so that
    rows of equal length stand together. An input is one row, or several windows."""

    ids: IntArray  # (N,)
    segments: IntArray  # (N,)
    lengths: IntArray  # (R,), never falling
    begins: IntArray  # (B,), the position of the first [CLS] of each input
    places: IntArray  # (P,), the position of each piece of a word, input by input
    words: IntArray  # (P,), the word it belongs to, 0 to W - 1
    n_words: IntArray  # (B,)


@dataclass(frozen=True, slots=True)
class _Laid:
    """The rows of one input, and where its pieces stand in them."""

    ids: list[IntArray]
    segments: list[IntArray]
    rows: IntArray  # (p,)
    columns: IntArray  # (p,)
    pieces: IntArray  # (n,), pieces of each word


class PieceReader:
    """Reads words, or pairs of texts, for a model with so many positions."""

    def __init__(self, wordpiece: WordPiece, max_positions: int = 512, *, pairs: bool = True):
        if max_positions < MIN_POSITIONS:
            raise ConfigError(
                f"max_positions is {max_positions}; expected {MIN_POSITIONS} or more."
            )
        self.wordpiece, self.max_positions, self.pairs = wordpiece, max_positions, pairs

    def read(self, inputs: Sequence[Input]) -> PieceBatch:
        laid = [self._lay(item) for item in inputs]
        ids = [row for one in laid for row in one.ids]
        segments = [row for one in laid for row in one.segments]
        lengths = np.array([len(row) for row in ids], dtype=np.int64)  # (R,)
        order = np.argsort(lengths, kind="stable")
        starts = np.empty_like(lengths)  # (R,), where each row begins
        starts[order] = np.cumsum(lengths[order]) - lengths[order]
        n_rows = np.array([len(one.ids) for one in laid], dtype=np.int64)
        first = np.cumsum(n_rows) - n_rows  # (B,), the first row of each input
        places = [starts[r + one.rows] + one.columns for r, one in zip(first, laid, strict=True)]
        pieces = _joined([one.pieces for one in laid])  # (W,)
        return PieceBatch(
            ids=_joined([ids[i] for i in order]),
            segments=_joined([segments[i] for i in order]),
            lengths=lengths[order],
            begins=starts[first],
            places=_joined(places),
            words=np.repeat(np.arange(len(pieces)), pieces),
            n_words=np.array([len(one.pieces) for one in laid], dtype=np.int64),
        )

    def length(self, item: Input) -> int:
        """Of all windows together."""
        counts = [sum(map(len, self.wordpiece.pieces(text))) for text in self._texts(item)]
        sizes = self._sizes(counts)
        n_rows = max(len(window_starts(*pair)) for pair in zip(counts, sizes, strict=True))
        return n_rows * (sum(sizes) + len(counts) + 1)

    def cuts(self, word: str) -> bool:
        """A word that is too long is not cut, but unknown as a whole."""
        long = len(word) > self.wordpiece.config.max_characters
        return long and self.wordpiece.unknown in self.wordpiece.pieces([word])[0]

    def unreadable(self, word: str) -> bool:
        """Nothing of it is in the vocabulary."""
        return self.wordpiece.pieces([word]) == [(self.wordpiece.unknown,)]

    def files(self) -> dict[str, bytes]:
        return self.wordpiece.files(self.max_positions)

    def _texts(self, item: Input) -> tuple[Words, ...]:
        if not isinstance(item, Pair):
            return (item,)
        if not self.pairs:
            raise InputError("This model has one segment only: it reads one text, not a pair.")
        return tuple(item)

    def _sizes(self, counts: Sequence[int]) -> list[int]:
        """How many pieces of each text go into a row: all of them, or as many as the other text
        leaves room for, and half a row at least."""
        room = self.max_positions - len(counts) - 1
        if len(counts) == 1:
            return [min(counts[0], room)]
        first = min(counts[0], max(room - counts[1], room // 2))
        return [first, min(counts[1], room - first)]

    def _lay(self, item: Input) -> _Laid:
        words = [self.wordpiece.pieces(text) for text in self._texts(item)]
        texts = [np.array([i for word in text for i in word], np.int64) for text in words]
        sizes = self._sizes([len(text) for text in texts])
        parts = [_Part(*part) for part in zip(texts, sizes, strict=True)]
        n_rows = max(len(part.starts) for part in parts)
        segments = np.repeat([0, *range(len(parts))], [1, *(size + 1 for size in sizes)])
        before = [1, 2 + sizes[0]]  # what stands before each text in its row
        found = [best_windows(len(part.text), part.size, part.starts) for part in parts]
        return _Laid(
            ids=[self._row([part.window(row) for part in parts]) for row in range(n_rows)],
            segments=[segments] * n_rows,
            rows=_joined([window for window, _ in found]),
            columns=_joined([place + n for (_, place), n in zip(found, before, strict=False)]),
            pieces=np.array([len(word) for text in words for word in text], np.int64),
        )

    def _row(self, windows: Sequence[IntArray]) -> IntArray:
        """With their marks."""
        end = np.array([self.wordpiece.end])
        marked = [part for window in windows for part in (window, end)]
        return np.concatenate([np.array([self.wordpiece.begin]), *marked])


class _Part:
    """One of the texts of an input, of which each row has a window."""

    def __init__(self, text: IntArray, size: int):
        self.text, self.size, self.starts = text, size, window_starts(len(text), size)

    def window(self, row: int) -> IntArray:
        """A text with fewer windows than there are rows repeats its last one."""
        start = self.starts[min(row, len(self.starts) - 1)]
        return self.text[start : start + self.size]


def window_starts(n: int, size: int) -> list[int]:
    """Where windows of `size` begin: half a window apart, and the last ends with the text."""
    if n <= size:
        return [0]
    return [*range(0, n - size, max(1, size // 2)), n - size]


def best_windows(n: int, size: int, starts: Sequence[int]) -> tuple[IntArray, IntArray]:
    """For each of `n` pieces, the window with the largest min(left, right) context, the first of
    equals, and the piece's place in it. That is the window whose middle is nearest."""
    begins, place = np.array(starts, dtype=np.int64), np.arange(n)
    between = begins[:-1] + begins[1:] + size - 1  # twice the middle between two middles
    window = np.searchsorted(between, 2 * place, side="left")  # (n,)
    return window, place - begins[window]


def _joined(arrays: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *arrays])
