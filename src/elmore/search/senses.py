"""The senses of a word in a corpus: clusters of its uses, each with typical uses and characteristic
words, and a map of all uses.
"""

# n uses, D vector dim
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmore.embedding import Vectors
from elmore.search.answers import Sense, Senses, WordMap
from elmore.search.characteristic import characteristic
from elmore.search.index_snapshot import IndexSnapshot
from elmore.search.vector_space import Layer
from elmore.uses.clusters import Clusters, cluster
from elmore.uses.geometry import plane
from elmore.uses.use import Use


class ClusteredUses(NamedTuple):
    """A word's uses, their vectors and their clusters."""

    snapshot: IndexSnapshot
    word: str
    uses: list[Use]
    vectors: Vectors  # (n, D)
    clusters: Clusters

    def senses(self, typical: int, words: int) -> Senses:
        """One sense per cluster, with this many typical uses and characteristic words."""
        uses, labels = self.uses, self.clusters.labels
        near = np.einsum("nd,nd->n", self.vectors, self.clusters.centers[labels])  # (n,)
        senses = []
        for i in range(len(self.clusters.centers)):
            ours = np.flatnonzero(labels == i)
            others = [uses[j] for j in np.flatnonzero(labels != i)]
            middle = [uses[j] for j in ours[np.argsort(-near[ours], kind="stable")]]
            told = characteristic(middle, others, self.snapshot.counts, words)
            senses.append(Sense(len(ours), _distinct(middle, typical), told))
        return Senses(self.word, len(uses), tuple(senses), self.clusters.separation)

    def map(self) -> WordMap:
        return WordMap(self.word, tuple(self.uses), plane(self.vectors), self.clusters.labels)


def clustered_uses(snapshot: IndexSnapshot, word: str, layer: Layer) -> ClusteredUses:
    vectors = snapshot.vectors(word, layer)
    return ClusteredUses(
        snapshot, snapshot.known(word), snapshot.uses(word), vectors, cluster(vectors)
    )


def _distinct(uses: Sequence[Use], n: int) -> tuple[Use, ...]:
    """The first n uses in different sentences."""
    first: dict[tuple[str, ...], Use] = {}
    for use in uses:
        first.setdefault(use.words, use)
    return tuple(first.values())[:n]
