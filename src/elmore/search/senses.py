"""Senses as groups of a word's uses. How many there are the uses themselves decide: groups count as
senses if they lie further apart than the groups that any one cloud of the same shape falls into.
"""

# n uses, D vector dim, P principal components, k groups
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import Vectors
from elmore.errors import InputError
from elmore.search.segment import Ints
from elmore.search.uses import Use
from elmore.search.vector_space import unit

MOST_SENSES = 6
FEWEST_USES = 5
"""Of a sense."""
_COMPONENTS = 16
_CLOUDS = 8
_LOOKED_AT = 1000  # uses that decide; time grows with their square
_TELLING = log(2)  # at least so much likelier
_WINDOW = 10  # words to either side that belong to a use
_EVERYWHERE = 1e-3  # of a corpus: a word as frequent as this tells of grammar, not of a sense


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Uses in groups, the largest first."""

    labels: Ints  # (n,)
    centres: Vectors  # (k, D), of length one
    separation: float
    """Silhouette; 0 for one group."""


def group(vectors: Vectors) -> Groups:
    """(n, D), rows of length one, into as many groups as the vectors bear out."""
    cluster = sklearn().cluster
    step = -(-len(vectors) // _LOOKED_AT)
    points = _principal(vectors, vectors[::step], _COMPONENTS)  # (n, P)
    some = points[::step]
    found = _best_cut(some)
    labels = np.zeros(len(vectors), np.int64)
    if found is not None:
        middles = np.stack([some[found == i].mean(axis=0) for i in range(found.max() + 1)])
        means = cluster.KMeans(len(middles), init=middles, n_init=1).fit(some)
        labels = means.predict(points).astype(np.int64)
    separation = 0.0 if found is None else silhouette(_square(_distances(some)), labels[::step])
    sizes = np.bincount(labels)
    labels = np.argsort(np.argsort(-sizes, kind="stable"))[labels]
    centres = unit(np.stack([vectors[labels == i].mean(axis=0) for i in range(len(sizes))]))
    return Groups(labels, centres, separation)


def plane(vectors: Vectors) -> Vectors:
    """(n, D) as points in the plane, (n, 2): the first two principal components."""
    points = _principal(vectors, vectors, 2)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def _principal(vectors: Vectors, learnt_from: Vectors, n: int) -> Vectors:
    mean = learnt_from.mean(axis=0)
    _, _, axes = np.linalg.svd(learnt_from - mean, full_matrices=False)
    axes = axes[:n]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # the same anywhere
    return np.asarray((vectors - mean) @ (axes * signs[:, None]).T, np.float32)


def _best_cut(points: Vectors) -> Ints | None:
    """The labels of the number of groups that stands out most; None: no number does."""
    if len(points) < 2 * FEWEST_USES:
        return None
    chance = np.random.default_rng(0)
    shape = (_CLOUDS, *points.shape)
    clouds = [_Tree(c) for c in chance.normal(size=shape) * points.std(axis=0)]
    tree = _Tree(points)
    best, most = None, 0.0
    for k in range(2, min(MOST_SENSES, len(points) // FEWEST_USES) + 1):
        by_chance = np.array([cloud.separation(k) for cloud in clouds])
        found = tree.separation(k)
        excess = found - float(by_chance.mean())
        enough = np.bincount(tree.labels(k)).min() >= FEWEST_USES
        if enough and found > by_chance.max() and excess > most:
            best, most = tree.labels(k), excess
    return best


class _Tree:
    """Points joined pair by pair, the two whose joining adds the least variance first."""

    def __init__(self, points: NDArray[Any]):
        from scipy.cluster.hierarchy import linkage

        distances = _distances(points)
        self._square = _square(distances)
        self._tree = linkage(distances, "ward")

    def labels(self, k: int) -> Ints:
        from scipy.cluster.hierarchy import fcluster

        return np.asarray(fcluster(self._tree, k, "maxclust") - 1, np.int64)

    def separation(self, k: int) -> float:
        return silhouette(self._square, self.labels(k))


def _distances(points: NDArray[Any]) -> NDArray[Any]:
    from scipy.spatial.distance import pdist

    return np.asarray(pdist(points))  # (n * (n - 1) / 2,)


def _square(distances: NDArray[Any]) -> NDArray[Any]:
    from scipy.spatial.distance import squareform

    return np.asarray(squareform(distances))  # (n, n)


def silhouette(distances: NDArray[Any], labels: Ints) -> float:
    """How much nearer points are to their own group than to the next, of distances (n, n); 0 for
    one group. As scikit-learn's, which takes more than ten times as long for 200 points; a word's
    senses need 46 of them.
    """
    sizes = np.bincount(labels)
    if len(sizes) == 1:
        return 0.0
    points = np.arange(len(labels))
    sums = distances @ np.eye(len(sizes))[labels]  # (n, k)
    own = sums[points, labels] / np.maximum(sizes[labels] - 1, 1)  # (n,), without itself
    sums[points, labels] = np.inf
    other = (sums / sizes).min(axis=1)
    larger = np.maximum(own, other)
    alone = (sizes[labels] == 1) | (larger == 0)
    return float(np.where(alone, 0.0, (other - own) / np.where(alone, 1.0, larger)).mean())


def characteristic(
    uses: Sequence[Use], others: Sequence[Use], background: Mapping[str, int], n: int
) -> tuple[str, ...]:
    """Words near these uses more often than near the others, by log-odds with the corpus's own
    frequencies as prior: the surest first. Without others, more often than in the corpus."""
    here, there = _context(uses), _context(others) if others else Counter(background)
    odds = _log_odds(here, there, background)
    telling = [word for word, (ratio, _) in odds.items() if ratio > _TELLING and here[word] > 1]
    return tuple(sorted(telling, key=lambda word: (-odds[word][1], word))[:n])


def _context(uses: Sequence[Use]) -> Counter[str]:
    """How many uses have the word near them."""
    counts: Counter[str] = Counter()
    for use in uses:
        near = use.words[max(0, use.position - _WINDOW) : use.position + _WINDOW + 1]
        counts.update({word for word in near if word.lower() != use.word.lower()})
    return Counter({word: n for word, n in counts.items() if any(c.isalpha() for c in word)})


def _log_odds(
    here: Counter[str], there: Counter[str], background: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """How much likelier a word is here, as a logarithm, and that in standard deviations."""
    n_here, n_there = here.total(), there.total()
    weight = 2 * n_here  # of the prior: it holds down what is frequent everywhere
    share = weight / max(1, sum(background.values()))
    odds = {}
    for word, count in here.items():
        prior = max(0.05, share * background.get(word, 0))
        ours, theirs = count + prior, there.get(word, 0) + prior
        ratio = log(ours / (n_here + weight - ours)) - log(theirs / (n_there + weight - theirs))
        odds[word] = ratio, ratio / sqrt(1 / ours + 1 / theirs)
    return odds


def sklearn() -> Any:
    try:
        import sklearn.cluster
    except ImportError:
        raise InputError("Senses need: pip install 'elmore[search]'") from None
    return sklearn
