"""How a causal model reads: `<s>`, then the pieces of the words. A word's vectors are those of its
last piece, which has seen all of it.
"""

# B inputs, T positions in the longest, P pieces of all words, W words of all
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmore.errors import InputError
from elmore.text.reader import Input, IntArray, Pair, Words
from elmore.text.subwords import Subwords


@dataclass(frozen=True, slots=True)
class CausalBatch:
    """Rows of pieces, each after its mark, padded with zeros."""

    ids: IntArray  # (B, T)
    lengths: IntArray  # (B,), the mark included
    places: IntArray  # (P,), of each piece of a word in the rows one after another, 0 to BT - 1
    words: IntArray  # (P,), the word it belongs to, 0 to W - 1
    n_words: IntArray  # (B,)


class CausalReader:
    """Reads words for a causal model."""

    def __init__(self, subwords: Subwords):
        self.subwords = subwords

    def read(self, inputs: Sequence[Input]) -> CausalBatch:
        pieces = [self.subwords.pieces(_one_text(item)) for item in inputs]
        rows = [[self.subwords.begin, *(i for word in text for i in word)] for text in pieces]
        ids, lengths = padded(rows)
        sizes = np.array([len(word) for text in pieces for word in text], dtype=np.int64)  # (W,)
        place = np.arange(ids.shape[1])
        inside = (place > 0) & (place < lengths[:, None])  # (B, T)
        return CausalBatch(
            ids=ids,
            lengths=lengths,
            places=np.flatnonzero(inside),
            words=np.repeat(np.arange(len(sizes)), sizes),
            n_words=np.array([len(text) for text in pieces], dtype=np.int64),
        )

    def length(self, item: Input) -> int:
        return 1 + sum(map(len, self.subwords.pieces(_one_text(item))))

    def cuts(self, word: str) -> bool:
        del word  # any number of pieces is read
        return False

    def unreadable(self, word: str) -> bool:
        return self.subwords.unknown(word)

    def files(self) -> dict[str, bytes]:
        return self.subwords.files()


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
