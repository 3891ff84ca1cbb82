"""The answers of an index: neighbors, senses, maps."""

# n uses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.uses.use import Use


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A use and its similarity: the cosine of the centered vectors."""

    use: Use
    score: float


@dataclass(frozen=True, slots=True)
class StaticNeighbor:
    """A word and its similarity without context."""

    word: str
    score: float


@dataclass(frozen=True, slots=True)
class Sense:
    """A cluster of uses of a word."""

    size: int
    typical: tuple[Use, ...]
    """The uses nearest to the center, each in a different sentence."""
    characteristic: tuple[str, ...]
    """Words that are more frequent in these sentences than in those of the other senses."""


@dataclass(frozen=True, slots=True)
class Senses:
    """The senses of a word in a corpus, the most frequent one first."""

    word: str
    n_uses: int
    senses: tuple[Sense, ...]
    separation: float
    """The silhouette of the senses, from -1 to 1; 0 if there is only one."""


@dataclass(frozen=True, slots=True, eq=False)
class WordMap:
    """All uses of a word as points in the plane."""

    word: str
    uses: tuple[Use, ...]
    points: NDArray[np.float32]  # (n, 2)
    senses: NDArray[np.int64]  # (n,), positions in `Senses.senses`
