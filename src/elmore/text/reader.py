"""The joint between words and models: a reader is a model's own way from words to integers.

A biLM reads each distinct word of a batch once, as a row of integers (a `Speller`'s), and finds
every occurrence by an index into these rows.
"""

# B sentences, T words in the longest with marks, W distinct words, C places in a word's row
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.text.marks import SENTENCE_BEGIN, SENTENCE_END

IntArray = NDArray[np.int64]
Words = Sequence[str]
Batch = Any
"""Integers that a reader gives to its own model. Only these two know what is in it."""


class Pair(NamedTuple):
    """Two texts that are read together."""

    first: Words
    second: Words


Input = Words | Pair


class Reader(Protocol):
    """From words to the integers that a model reads."""

    def read(self, inputs: Sequence[Input]) -> Batch: ...

    def length(self, item: Input) -> int:
        """Positions that it takes, marks included."""

    def cuts(self, word: str) -> bool:
        """Whether the word is too long to be read to its end."""

    def files(self) -> dict[str, bytes]:
        """Saved beside the weights, and part of the fingerprint."""


class Speller(Reader, Protocol):
    """A reader of words: each word is a row of integers, whatever sentence it stands in."""

    def spell(self, words: Sequence[str]) -> IntArray:
        """(n, C)."""


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Sentences between their marks, as indexes into the rows of their distinct words."""

    spelled: IntArray  # (W, C)
    index: IntArray  # (B, T), 0 where there is no word
    lengths: IntArray  # (B,), marks included


class ReadsWords:
    """What all spellers share: sentences between two marks, each distinct word spelled once."""

    def spell(self, words: Sequence[str]) -> IntArray:
        raise NotImplementedError

    def read(self, inputs: Sequence[Input]) -> WordBatch:
        """Wrap each sentence in `<S>` … `</S>`."""
        row_of = {SENTENCE_BEGIN: 0, SENTENCE_END: 1}
        lengths = np.array([self.length(words) for words in inputs], dtype=np.int64)
        index = np.zeros((len(inputs), lengths.max(initial=2)), dtype=np.int64)  # (B, T)
        for ids, words in zip(index, inputs, strict=True):
            assert not isinstance(words, Pair)  # `length` has refused it
            ids[1 : len(words) + 1] = [row_of.setdefault(word, len(row_of)) for word in words]
            ids[len(words) + 1] = row_of[SENTENCE_END]
        return WordBatch(spelled=self.spell(list(row_of)), index=index, lengths=lengths)

    def length(self, item: Input) -> int:
        if isinstance(item, Pair):
            raise InputError("This model reads one text at a time, not a pair.")
        return len(item) + 2
