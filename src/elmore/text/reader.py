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

SENTENCE_BEGIN = "<S>"
SENTENCE_END = "</S>"
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

    def unreadable(self, word: str) -> bool:
        """Whether nothing of the word is known, so that it looks like any other such word."""

    def files(self) -> dict[str, bytes]:
        """Saved beside the weights, and part of the fingerprint."""


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Sentences between their marks, as indexes into the rows of their distinct words."""

    spelled: IntArray  # (W, C)
    index: IntArray  # (B, T), 0 where there is no word
    lengths: IntArray  # (B,), marks included


def index_words(sentences: Sequence[Words]) -> tuple[list[str], IntArray, IntArray]:
    """Distinct words, marks first; every sentence with marks as an index into them; lengths."""
    number = {SENTENCE_BEGIN: 0, SENTENCE_END: 1}
    lengths = np.array([len(words) + 2 for words in sentences], dtype=np.int64)
    index = np.zeros((len(sentences), lengths.max(initial=2)), dtype=np.int64)  # (B, T)
    for ids, words in zip(index, sentences, strict=True):
        ids[1 : len(words) + 1] = [number.setdefault(word, len(number)) for word in words]
        ids[len(words) + 1] = number[SENTENCE_END]
    return list(number), index, lengths


class Speller(Reader, Protocol):
    """A reader of words: each word is a row of integers, the same in every sentence."""

    def spell(self, words: Sequence[str]) -> IntArray:
        """The rows of `words`, one after another, (n, C)."""

    def read(self, inputs: Sequence[Input]) -> WordBatch:
        """Wrap each sentence in `<S>` … `</S>`."""
        distinct, index, lengths = index_words([_one_text(item) for item in inputs])
        return WordBatch(spelled=self.spell(distinct), index=index, lengths=lengths)

    def length(self, item: Input) -> int:
        return len(_one_text(item)) + 2


def _one_text(item: Input) -> Words:
    if isinstance(item, Pair):
        raise InputError("This model reads one text at a time, not a pair.")
    return item
