"""Batches of examples of similar length, so that they need little padding."""

from collections.abc import Sequence

import numpy as np

_BUCKET = 32  # batches that are sorted by length together


def training_batches(
    lengths: Sequence[int], batch: int, rng: np.random.Generator
) -> list[list[int]]:
    """Every index once, in batches of similar length and in random order."""
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), _BUCKET * batch):
        bucket = order[start : start + _BUCKET * batch]
        by_length = bucket[np.argsort(np.asarray(lengths)[bucket], kind="stable")].tolist()
        batches += [by_length[i : i + batch] for i in range(0, len(by_length), batch)]
    return [batches[i] for i in rng.permutation(len(batches))]


def plain_batches(lengths: Sequence[int], batch: int) -> list[list[int]]:
    """Every index once, longest first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[i : i + batch] for i in range(0, len(order), batch)]
