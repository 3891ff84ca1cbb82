"""A small corpus with a known shape, and a slow, obvious search to compare with."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import Embedder

NOUNS = ["bank", "river", "money", "play", "stage", "ball"]
PLACES = ["near", "behind", "under", "over"]


def corpus(n: int) -> list[list[str]]:
    """Sentences that differ, of 6 or 7 words; "the" stands in each of them twice."""
    return [
        ["the", NOUNS[i % 6], PLACES[i % 4], "the", NOUNS[(i // 6) % 6], f"x{i}", "."][: 7 - i % 2]
        for i in range(n)
    ]


def exact(
    embedder: Embedder,
    sentences: Sequence[Sequence[str]],
    query: NDArray[np.float64],
    weights: Iterable[float],
    centre: NDArray[np.float64],
) -> list[tuple[float, tuple[str, ...], int]]:
    """Cosines of all uses with a query of (L, D), in float64, the nearest first."""
    shares = np.array(list(weights))

    def seen(layers: NDArray[np.float64]) -> NDArray[np.float64]:
        mixed = np.tensordot(shares, layers - centre, axes=1)
        return np.asarray(mixed / np.linalg.norm(mixed))

    wanted, found = seen(query), []
    for words in sentences:
        layers = embedder.embed([words])[0].layers.astype(np.float64)
        for position in range(len(words)):
            score = float(seen(layers[:, position]) @ wanted)
            found.append((score, tuple(words), position))
    return sorted(found, reverse=True)
