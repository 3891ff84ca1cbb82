"""The geometry of vectors: length one, mean removed, cosines, principal components."""

# n vectors, m others, D vector dim, P principal components
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Real = TypeVar("Real", np.float32, np.float64)


def unit(vectors: NDArray[Real], least: float = 0.0) -> NDArray[Real]:
    """Vectors of length one; a vector of zeros stays. Lengths below `least` count as `least`."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, least or np.finfo(vectors.dtype).tiny))


def centered(vectors: Floats, mean_dtype: DTypeLike = np.float64) -> Floats:
    """(…, n, D) without their mean: what all share tells none from another."""
    mean = vectors.mean(axis=-2, keepdims=True, dtype=mean_dtype)
    return np.asarray(vectors - mean, dtype=np.float32)


def cosines(vectors: Floats, others: Floats) -> Doubles:
    """Between every two, (n, m), in double precision; with a vector of zeros they are 0."""
    return unit(vectors.astype(np.float64)) @ unit(others.astype(np.float64)).T


def principal(vectors: Floats, learned_from: Floats, n: int) -> Floats:
    """(n, D) -> (n, P): coordinates along the directions in which `learned_from` varies most."""
    mean = learned_from.mean(axis=0)
    _, _, axes = np.linalg.svd(learned_from - mean, full_matrices=False)
    axes = axes[:n]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # the same anywhere
    return np.asarray((vectors - mean) @ (axes * signs[:, None]).T, np.float32)


def plane(vectors: Floats) -> Floats:
    """(n, D) -> (n, 2): the first two principal components."""
    points = principal(vectors, vectors, 2)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def exact_plane(vectors: Floats) -> Doubles:
    """The same in double precision; the point farthest out lies on the positive side."""
    left, sizes, _ = np.linalg.svd(
        vectors - vectors.mean(axis=0, dtype=np.float64), full_matrices=False
    )
    points = np.zeros((len(vectors), 2))
    kept = min(2, len(sizes))
    points[:, :kept] = left[:, :kept] * sizes[:kept]
    farthest = np.take_along_axis(points, np.abs(points).argmax(axis=0)[None], axis=0)
    return points * np.where(farthest < 0, -1.0, 1.0)
