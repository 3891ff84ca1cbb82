"""The space in which uses are compared: what is kept of a model's layers, less the mean of each, so
that what all words have in common does not make everything alike.
"""

# L layers of the model, K kept layers, n words, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from elmore.embedding import LayerChoice, Layers, Vectors
from elmore.errors import ConfigError, FormatError, InputError
from elmore.search.manifest import Manifest
from elmore.uses.geometry import unit

CENTER = "centre.bin"

Layer = int | Literal["mix"] | Sequence[float]
"""A layer's number, the equal mix of what is kept, or a weight for each kept layer."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorSpace:
    """From a model's layers to the vectors of an index."""

    keep: LayerChoice
    center: Vectors  # (K, D)
    n_layers: int
    """Of the model."""

    def kept(self, layers: Vectors) -> Vectors:
        """(L, n, D) -> (K, n, D)."""
        return self.keep.select(layers) - self.center[:, None]

    def query(self, layers: Vectors, layer: Layer) -> "Query":
        """Of one word's layers, (L, D)."""
        shape = (self.n_layers, self.center.shape[1])
        if layers.shape != shape:
            raise InputError(f"The vectors of a word are {layers.shape}; expected {shape}.")
        return Query(self.kept(layers[:, None])[:, 0], self.weights(layer))

    def weights(self, layer: Layer) -> Vectors:
        """How much each kept layer counts, (K,)."""
        n_kept = len(self.center)
        if isinstance(layer, str):
            if layer != "mix":
                raise ConfigError(f"layer is {layer!r}; expected a number, 'mix' or weights.")
            return equal_mix(n_kept)
        if isinstance(layer, int):
            return one_layer(self._place(layer), n_kept)
        weights = np.asarray(layer, np.float64)
        if weights.shape != (n_kept,) or not np.isfinite(weights).all() or not weights.any():
            raise ConfigError(
                f"layer is {list(layer)}; expected {n_kept} weights, one for each kept layer, "
                "not all of them 0."
            )
        # cosines do not ask how large they are, and float32 could not multiply any size
        return np.asarray(weights / np.abs(weights).max(), np.float32)

    def _place(self, layer: int) -> int:
        numbers = self.keep.numbers if isinstance(self.keep, Layers) else ()
        if layer not in numbers:
            raise ConfigError(
                f"layer is {layer}, but the index keeps {self.keep.described()}; ask for 'mix', or "
                "build an index with keep='all'."
            )
        return numbers.index(layer)


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A word to find neighbors of, and how much each of its layers counts."""

    kept: Vectors  # (K, D)
    weights: Vectors  # (K,)

    def seen(self, weights: Vectors) -> Vectors:
        """As a vector of length one, (D,)."""
        return unit(np.tensordot(weights, self.kept, axes=1))


def equal_mix(n_kept: int) -> Vectors:
    return np.full(n_kept, 1 / n_kept, np.float32)


def one_layer(place: int, n_kept: int) -> Vectors:
    weights = np.zeros(n_kept, np.float32)
    weights[place] = 1
    return weights


def read_vector_space(folder: Path, manifest: Manifest) -> VectorSpace:
    shape = (manifest.n_kept, manifest.dim)
    data = (folder / CENTER).read_bytes()
    if len(data) != 4 * shape[0] * shape[1]:
        raise FormatError(
            f"{folder / CENTER}: {len(data)} bytes; expected {shape} float32 numbers."
        )
    center = np.frombuffer(data, np.float32).reshape(shape)
    return VectorSpace(manifest.keep, center, manifest.n_layers)
