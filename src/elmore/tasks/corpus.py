"""The examples of a file, before any tensor: readers and scorers need no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

E_co = TypeVar("E_co", covariant=True)

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Corpus(Generic[E_co]):
    """The examples of a file, and notes on what could not be used: nothing is dropped silently."""

    examples: Sequence[E_co]
    notes: tuple[str, ...] = ()
    """One line each, with a count: `12 pairs without a label left out`."""
