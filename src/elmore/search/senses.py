"""The senses of a word in a corpus: clusters of its uses, each with typical uses and characteristic
words, and a map of all uses.
"""

# n uses, D vector dim
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from elmore.embedding import Vectors
from elmore.search.answers import Sense, Senses, WordMap
from elmore.search.index_snapshot import IndexSnapshot
from elmore.search.vector_space import Layer
from elmore.text.function_words import is_content
from elmore.uses.clusters import Clusters, cluster
from elmore.uses.geometry import plane
from elmore.uses.use import Use

_TELLING = log(2)  # at least twice as likely
_WINDOW = 10  # words to either side that belong to a use


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


def clustered_uses(snapshot: IndexSnapshot, word: str, layer: Layer | None) -> ClusteredUses:
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


# Characteristic words of a sense: more frequent near its uses than elsewhere ---------------------


def characteristic(
    uses: Sequence[Use], others: Sequence[Use], background: Mapping[str, int], n: int
) -> tuple[str, ...]:
    """Words that are more frequent near these uses than near the others, by log-odds with the word
    frequencies of the corpus as prior; the most certain first. Without others, than in the corpus.
    """
    here, there = _context(uses), _context(others) if others else Counter(background)
    odds = _log_odds(here, there, background)
    telling = [word for word, (ratio, _) in odds.items() if ratio > _TELLING and here[word] > 1]
    telling = [word for word in telling if is_content(word)]  # all words count, not all are shown
    return tuple(sorted(telling, key=lambda word: (-odds[word][1], word))[:n])


def _context(uses: Sequence[Use]) -> Counter[str]:
    """For each word, the number of uses that have it near them."""
    counts: Counter[str] = Counter()
    for use in uses:
        near = use.words[max(0, use.position - _WINDOW) : use.position + _WINDOW + 1]
        counts.update({word for word in near if word.lower() != use.word.lower()})
    return Counter({word: n for word, n in counts.items() if any(c.isalpha() for c in word)})


def _log_odds(
    here: Counter[str], there: Counter[str], background: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """The log-odds ratio of each word, and the same in standard deviations."""
    n_here, n_there = here.total(), there.total()
    weight = 2 * n_here  # of the prior, which lowers words that are frequent everywhere
    share = weight / max(1, sum(background.values()))
    odds = {}
    for word, count in here.items():
        prior = max(0.05, share * background.get(word, 0))
        ours, theirs = count + prior, there.get(word, 0) + prior
        ratio = log(ours / (n_here + weight - ours)) - log(theirs / (n_there + weight - theirs))
        odds[word] = ratio, ratio / sqrt(1 / ours + 1 / theirs)
    return odds
