"""Which sentences are computed together: those of similar length, to keep padding small."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
BATCH_WORDS = 4096
"""Words computed together, marks included. More takes more memory and is hardly faster."""


def batches_by_length(lengths: Sequence[int], max_words: int) -> Iterator[list[int]]:
    """Positions in `lengths`, longest first, so that no padded batch exceeds `max_words`.

    Lengths count marks. A sentence longer than the budget is a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        n = max(1, max_words // max(1, lengths[order[start]]))
        yield order[start : start + n]
        start += n


def windows(items: Iterable[tuple[T, int]], max_words: int, max_items: int) -> Iterator[list[T]]:
    """Consecutive items in lists of about `max_words` words; each comes with its word count."""
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
