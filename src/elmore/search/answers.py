"""What an index answers with: neighbors, senses, maps."""

# n uses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.uses.use import Use


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A use and how near it is: the cosine of the centered vectors."""

    use: Use
    score: float


@dataclass(frozen=True, slots=True)
class StaticNeighbor:
    """A word and how near it is without context."""

    word: str
    score: float


@dataclass(frozen=True, slots=True)
class Sense:
    """Uses of a word that lie together."""

    size: int
    typical: tuple[Use, ...]
    """The uses nearest to the middle, each in a sentence of its own."""
    characteristic: tuple[str, ...]
    """Words that stand in these sentences more often than in those of the other senses."""


@dataclass(frozen=True, slots=True)
class Senses:
    """What a word means in a corpus, the most frequent sense first."""

    word: str
    n_uses: int
    senses: tuple[Sense, ...]
    separation: float
    """The silhouette of the senses, from -1 to 1; 0 when there is but one."""


@dataclass(frozen=True, slots=True, eq=False)
class WordMap:
    """All uses of a word as points in the plane."""

    word: str
    uses: tuple[Use, ...]
    points: NDArray[np.float32]  # (n, 2)
    senses: NDArray[np.int64]  # (n,), numbers into `Senses.senses`
