"""A tiny model with a lens that nobody has learned: a fixed wave, the same everywhere."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from elmore.checkpoint.sources import load, save
from elmore.models.lens import Lens


def wave_lens(dim: int, layers: tuple[int, ...] = (2,), speed: float = 0.7) -> Lens:
    weight = np.sin(np.arange(dim * len(layers) * dim) * speed).reshape(dim, -1)
    return Lens(
        layers, weight.astype(np.float32), np.cos(np.arange(dim)).astype(np.float32), "waves"
    )


def with_lens(model: Path, folder: Path, *, speed: float = 0.7) -> Path:
    """A copy of a model, with a lens."""
    checkpoint = load(model)
    save(replace(checkpoint, lens=wave_lens(checkpoint.model.dim, speed=speed)), folder)
    return folder
