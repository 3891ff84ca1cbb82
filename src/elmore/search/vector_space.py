"""The space in which uses are compared: the kept layers minus their mean, because what all words
have in common would make everything similar.
"""

# L layers of the model, K kept layers, n words, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from elmore.embedding import LayerChoice, Layers, Vectors
from elmore.errors import ConfigError, InputError
from elmore.search.checked_files import LARGEST, WholeFile, damaged
from elmore.search.manifest import Manifest
from elmore.uses.geometry import unit

CENTER = "centre.bin"

Layer = int | Literal["mix"] | Sequence[float]
"""The number of a layer, the equal mix of the kept layers, or a weight for each kept layer."""


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
        """The query for the layers of one word, (L, D)."""
        shape = (self.n_layers, self.center.shape[1])
        if layers.shape != shape:
            raise InputError(f"The vectors of the word are {layers.shape}; expected {shape}.")
        return Query(self.kept(layers[:, None])[:, 0], self.weights(layer))

    def weights(self, layer: Layer) -> Vectors:
        """The weight of each kept layer, (K,)."""
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
        # cosines do not depend on the scale, and very large weights would overflow in float32
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
    """A word to find neighbors of, and the weight of each of its layers."""

    kept: Vectors  # (K, D)
    weights: Vectors  # (K,)

    def seen(self, weights: Vectors) -> Vectors:
        """The unit vector for these weights, (D,)."""
        return unit(np.tensordot(weights, self.kept, axes=1))


def equal_mix(n_kept: int) -> Vectors:
    return np.full(n_kept, 1 / n_kept, np.float32)


def one_layer(place: int, n_kept: int) -> Vectors:
    weights = np.zeros(n_kept, np.float32)
    weights[place] = 1
    return weights


def read_vector_space(folder: Path, manifest: Manifest) -> VectorSpace:
    n_kept, dim = manifest.n_kept, manifest.dim
    file = WholeFile(folder / CENTER, manifest.files.get(CENTER))
    center = file.numbers(np.float32, n_kept * dim).reshape(n_kept, dim)
    if not (np.abs(center) < LARGEST).all():
        raise damaged(folder / CENTER, "it has impossible numbers")
    return VectorSpace(manifest.keep, center, manifest.n_layers)
