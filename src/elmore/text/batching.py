"""Sentences into batches: each distinct word spelled once, each occurrence an index to it,
and sentences of like length together so that little is padding.
"""

# B sentences, T words in the longest, W distinct words, C places in a word's row
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.text.characters import SENTENCE_BEGIN, SENTENCE_END

IntArray = NDArray[np.int64]
T = TypeVar("T")


class Speller(Protocol):
    """Anything that turns words into rows of integers."""

    def spell(self, words: Sequence[str]) -> IntArray: ...

    def cuts(self, word: str) -> bool:
        """Whether it is too long to be read to its end."""


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Sentences between their marks, as indexes into the rows of their distinct words."""

    rows: IntArray  # (W, C)
    index: IntArray  # (B, T), 0 where there is no word
    lengths: IntArray  # (B,), marks included


def batch_words(sentences: Sequence[Sequence[str]], speller: Speller) -> WordBatch:
    """Wrap each sentence in `<S>` … `</S>` and spell every distinct word once."""
    row_of = {SENTENCE_BEGIN: 0, SENTENCE_END: 1}
    lengths = np.array([len(words) + 2 for words in sentences], dtype=np.int64)
    index = np.zeros((len(sentences), lengths.max(initial=2)), dtype=np.int64)  # (B, T)
    for ids, words in zip(index, sentences, strict=True):
        ids[1 : len(words) + 1] = [row_of.setdefault(word, len(row_of)) for word in words]
        ids[len(words) + 1] = row_of[SENTENCE_END]
    return WordBatch(rows=speller.spell(list(row_of)), index=index, lengths=lengths)


def batches_by_length(lengths: Sequence[int], max_words: int) -> Iterator[list[int]]:
    """Positions of `lengths`, longest first, cut where a padded batch would pass `max_words`.

    Marks count. A sentence longer than the budget is a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        n = max(1, max_words // (lengths[order[start]] + 2))
        yield order[start : start + n]
        start += n


def windows(items: Iterable[tuple[T, int]], max_words: int, max_items: int) -> Iterator[list[T]]:
    """Consecutive items in lists of at most about `max_words` words; an item comes with its own."""
    window: list[T] = []
    n_words = 0
    for item, words in items:
        window.append(item)
        n_words += words
        if n_words >= max_words or len(window) >= max_items:
            yield window
            window, n_words = [], 0
    if window:
        yield window
