"""The mix of layers, γ Σ softmax(w)_j h_j, in float64 NumPy.

With layer norm each layer is normalised by one mean and one variance over all the unmasked
elements of the batch, as AllenNLP does (eps 1e-12 in 0.9, 1e-13 later).
"""

# L layers, B sentences, T words, D dim

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def softmax(weights: Sequence[float] | npt.NDArray[Any]) -> Array:
    w = np.asarray(weights, dtype=np.float64)
    exponents = np.exp(w - w.max())
    return np.asarray(exponents / exponents.sum())


def normalise(layer: Array, mask: npt.NDArray[Any], eps: float) -> Array:
    """Shift and scale a whole layer (..., D) by what its unmasked words hold; mask is (...)."""
    kept = layer[np.asarray(mask, dtype=bool)]  # (words, D)
    mean = kept.mean()
    variance = ((kept - mean) ** 2).mean()
    return np.asarray((layer - mean) / np.sqrt(variance + eps))


def scalar_mix(
    layers: Sequence[npt.NDArray[Any]] | npt.NDArray[Any],
    weights: Sequence[float] | npt.NDArray[Any],
    gamma: float = 1.0,
    *,
    layer_norm: bool = False,
    mask: npt.NDArray[Any] | None = None,
    eps: float = 1e-12,
) -> Array:
    """Mix L layers (..., D) into one (..., D); masked positions carry no meaning."""
    shares = softmax(weights)
    stack = [np.asarray(layer, dtype=np.float64) for layer in layers]
    assert len(stack) == len(shares), "one weight a layer"
    if layer_norm:
        words = np.ones(stack[0].shape[:-1], dtype=bool) if mask is None else mask
        stack = [normalise(layer, words, eps) for layer in stack]
    mixed = np.zeros_like(stack[0])
    for share, layer in zip(shares, stack, strict=True):
        mixed += share * layer
    return gamma * mixed
