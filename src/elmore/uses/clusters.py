"""Clusters of a word's uses, which stand for its senses. The uses themselves decide how many there
are: clusters count if they lie further apart than the clusters that random points of the same
spread fall into.
"""

# n uses, D vector dim, P principal components, k clusters
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.uses.geometry import Floats, principal, unit

Ints = NDArray[np.int64]

MOST_CLUSTERS = 6
FEWEST_USES = 5
"""Of a cluster."""
_COMPONENTS = 16
_CLOUDS = 8
_LOOKED_AT = 1000  # uses that decide; time grows with their square


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Uses in groups, the largest first."""

    labels: Ints  # (n,)
    centers: Floats  # (k, D), of length one
    separation: float
    """Silhouette; 0 for one group."""


def cluster(vectors: Floats) -> Clusters:
    """(n, D), rows of length one, into as many groups as the vectors bear out."""
    kmeans = sklearn().cluster.KMeans
    step = -(-len(vectors) // _LOOKED_AT)
    points = principal(vectors, vectors[::step], _COMPONENTS)  # (n, P)
    some = points[::step]
    found = _best_cut(some)
    labels = np.zeros(len(vectors), np.int64)
    if found is not None:
        middles = np.stack([some[found == i].mean(axis=0) for i in range(found.max() + 1)])
        means = kmeans(len(middles), init=middles, n_init=1).fit(some)
        labels = means.predict(points).astype(np.int64)
    separation = 0.0 if found is None else silhouette(_distances(some), labels[::step])
    sizes = np.bincount(labels)
    labels = np.argsort(np.argsort(-sizes, kind="stable"))[labels]
    centers = unit(np.stack([vectors[labels == i].mean(axis=0) for i in range(len(sizes))]))
    return Clusters(labels, centers, separation)


def _best_cut(points: Floats) -> Ints | None:
    """The labels of the number of groups that stands out most; None: no number does."""
    if len(points) < 2 * FEWEST_USES:
        return None
    chance = np.random.default_rng(0)
    shape = (_CLOUDS, *points.shape)
    clouds = [_Tree(c) for c in chance.normal(size=shape) * points.std(axis=0)]
    tree = _Tree(points)
    best, most = None, 0.0
    for k in range(2, min(MOST_CLUSTERS, len(points) // FEWEST_USES) + 1):
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
        from scipy.spatial.distance import squareform

        self._distances = _distances(points)
        self._tree = linkage(squareform(self._distances), "ward")

    def labels(self, k: int) -> Ints:
        from scipy.cluster.hierarchy import fcluster

        return np.asarray(fcluster(self._tree, k, "maxclust") - 1, np.int64)

    def separation(self, k: int) -> float:
        return silhouette(self._distances, self.labels(k))


def _distances(points: NDArray[Any]) -> NDArray[Any]:
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)))  # (n, n)


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


def sklearn() -> Any:
    try:
        import sklearn.cluster
    except ImportError:
        raise InputError("Senses need: pip install 'elmore[search]'") from None
    return sklearn
