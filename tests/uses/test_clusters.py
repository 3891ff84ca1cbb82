"""Clusters are found where there are some, and nowhere else."""

import numpy as np
import pytest

from elmore.uses.clusters import cluster, silhouette
from elmore.uses.geometry import plane, unit


def clouds(sizes: list[int], apart: float, dim: int = 30) -> np.ndarray:
    """Gaussian clouds round orthogonal middles, rows of length one."""
    rng = np.random.default_rng(0)
    middles = np.eye(dim)[: len(sizes)] * apart
    rows = [rng.normal(size=(n, dim)) * 0.1 + m for n, m in zip(sizes, middles, strict=True)]
    return unit((np.concatenate(rows) + 0.3).astype(np.float32))


@pytest.mark.parametrize("sizes", [[80, 40], [60, 50, 40], [40, 30, 20, 10]])
def test_clouds_that_lie_apart_are_found(sizes: list[int]):
    clusters = cluster(clouds(sizes, apart=1.0))
    assert np.bincount(clusters.labels).tolist() == sizes
    assert (np.diff(clusters.labels) >= 0).all()  # the largest first, and no point strays
    assert clusters.separation > 0.3


@pytest.mark.parametrize("seed", range(5))
def test_one_cloud_is_one_sense(seed: int):
    rng = np.random.default_rng(seed)
    stretched = rng.normal(size=(150, 30)) * np.geomspace(1, 0.05, 30) + 2
    clusters = cluster(unit(stretched.astype(np.float32)))
    assert clusters.labels.tolist() == [0] * 150
    assert clusters.separation == 0


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_uses_are_one_sense(n: int):
    vectors = clouds([n], apart=1.0)
    assert cluster(vectors).labels.tolist() == [0] * n
    assert plane(vectors).shape == (n, 2)


def test_many_uses_are_grouped_by_some_of_them():
    clusters = cluster(clouds([3000, 2000], apart=1.0))
    assert np.bincount(clusters.labels).tolist() == [3000, 2000]


@pytest.mark.parametrize("n_groups", [1, 2, 5])
def test_the_silhouette_is_that_of_scikit_learn(n_groups: int):
    metrics = pytest.importorskip("sklearn.metrics", reason="the extra `search` is not installed")
    rng = np.random.default_rng(n_groups)
    points = rng.normal(size=(40, 3)) + 3 * np.arange(40)[:, None] / 40
    points[1] = points[2]
    labels = np.arange(40) * n_groups // 40
    if n_groups > 2:
        labels[7] = n_groups  # a cluster of one
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    want = 0.0
    if n_groups > 1:
        want = metrics.silhouette_score(distances, labels, metric="precomputed")
    assert silhouette(distances, labels) == pytest.approx(want, abs=1e-12)
