"""Sampled and full softmax losses in float64 NumPy, one target at a time.

Negatives come unique from a log-uniform distribution; how often a word was expected to be drawn
is subtracted, as a logarithm, from its logit, for the target and the negatives alike.
"""

# N targets, S samples, P dim, V words

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def log_uniform_probabilities(vocab_size: int) -> Array:
    """P(k) = log((k + 2) / (k + 1)) / log(V + 1) for k = 0 .. V - 1; they sum to one."""
    k = np.arange(vocab_size, dtype=np.float64)
    return np.asarray(np.log((k + 2.0) / (k + 1.0)) / np.log(vocab_size + 1.0))


def expected_counts(probabilities: npt.NDArray[Any], tries: int) -> Array:
    """The chance 1 - (1 - p)^tries of a word to be among the unique samples after `tries`."""
    p = np.asarray(probabilities, dtype=np.float64)
    return np.asarray(-np.expm1(tries * np.log1p(-p)))


def log_sum_exp(x: Array) -> float:
    return float(x.max() + np.log(np.exp(x - x.max()).sum()))


def full_softmax_loss(
    h: npt.NDArray[Any],
    targets: Sequence[int] | npt.NDArray[Any],
    weight: npt.NDArray[Any],
    bias: npt.NDArray[Any],
) -> Array:
    """-log P(target | h) with all V words in the sum: h (N, P), weight (V, P), bias (V,) -> (N,)"""
    h, weight, bias = (np.asarray(a, dtype=np.float64) for a in (h, weight, bias))
    losses = []
    for row, target in zip(h, targets, strict=True):
        logits = weight @ row + bias  # (V,)
        losses.append(log_sum_exp(logits) - logits[target])
    return np.array(losses)


def sampled_softmax_loss(
    h: npt.NDArray[Any],
    targets: Sequence[int] | npt.NDArray[Any],
    samples: Sequence[int] | npt.NDArray[Any],
    tries: int,
    weight: npt.NDArray[Any],
    bias: npt.NDArray[Any],
) -> Array:
    """The loss of each target against shared samples (S,) that took `tries` draws: (N,)."""
    h, weight, bias = (np.asarray(a, dtype=np.float64) for a in (h, weight, bias))
    counts = expected_counts(log_uniform_probabilities(len(weight)), tries)  # (V,)
    losses = []
    for row, target in zip(h, targets, strict=True):
        negatives = [int(s) for s in samples if s != target]  # an accidental hit is no negative
        words = np.array([int(target), *negatives])
        logits = weight[words] @ row + bias[words] - np.log(counts[words])
        losses.append(log_sum_exp(logits) - logits[0])
    return np.array(losses)
