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
        """How many pieces of each text go into a row: all, or else half a row of the longer at
        least, and what is left over by the other."""
        room = self.max_positions - len(counts) - 1
        if len(counts) == 1:
            return [min(counts[0], room)]
        first = min(counts[0], max(room - counts[1], room // 2))
        return [first, min(counts[1], room - first)]

    def _lay(self, item: Input) -> _Laid:
        marks = self.wordpiece
        found = [marks.pieces(text) for text in self._texts(item)]
        texts = [np.array([i for word in words for i in word], dtype=np.int64) for words in found]
        sizes = self._sizes([len(text) for text in texts])
        starts = [window_starts(len(t), size) for t, size in zip(texts, sizes, strict=True)]
        ids, segments = [], []
        for row in range(max(map(len, starts))):
            parts = [np.array([marks.begin])]
            for text, size, begins in zip(texts, sizes, starts, strict=True):
                begin = begins[min(row, len(begins) - 1)]
                parts += [text[begin : begin + size], np.array([marks.end])]
            ids.append(np.concatenate(parts))
            segments.append(np.repeat([0, *range(len(texts))], [1, *(n + 1 for n in sizes)]))
        rows, columns, before = [], [], 1
        for text, size, begins in zip(texts, sizes, starts, strict=True):
            row, column = best_windows(len(text), size, begins)
            rows.append(row)
            columns.append(column + before)
            before += size + 1
        counts = [len(word) for words in found for word in words]
        lengths = np.array(counts, dtype=np.int64)
        return _Laid(ids, segments, _joined(rows), _joined(columns), lengths)


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
