"""The space in which uses are compared: the kept layers minus their mean, because what all words
have in common would make everything similar.
"""

# L layers of the model, K kept layers, n words, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from elmore.embedding import LayerChoice, Layers, LayersAndMeaning, Meaning, Vectors
from elmore.errors import ConfigError, InputError
from elmore.models.lens import MEANING, Lens
from elmore.search.checked_files import LARGEST, WholeFile, damaged
from elmore.search.manifest import Manifest
from elmore.uses.geometry import unit

CENTER = "centre.bin"

Layer = int | Literal["mix", "meaning"] | Sequence[float]
"""The number of a layer, the equal mix of the kept layers, the vectors of the model's lens, or a
weight for each kept layer."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorSpace:
    """From a model's layers to the vectors of an index."""

    keep: LayerChoice
    center: Vectors  # (K, D)
    n_layers: int
    """Of the model."""

    @property
    def default(self) -> Layer:
        """What is looked at unless something else is asked for."""
        return MEANING if isinstance(self.keep, Meaning) else "mix"

    def kept(self, layers: Vectors, lens: Lens | None) -> Vectors:
        """(L, n, D) -> (K, n, D)."""
        return self.keep.select(layers, lens) - self.center[:, None]

    def query(self, layers: Vectors, layer: Layer | None, lens: Lens | None) -> "Query":
        """The query for the layers of one word, (L, D)."""
        shape = (self.n_layers, self.center.shape[1])
        if layers.shape != shape:
            raise InputError(f"The vectors of the word are {layers.shape}; expected {shape}.")
        weights = self.weights(layer)
        return Query(self.kept(layers[:, None], lens)[:, 0], weights)

    def weights(self, layer: Layer | None) -> Vectors:
        """The weight of each kept layer, (K,); None: the default."""
        n_kept = len(self.center)
        match self.default if layer is None else layer:
            case "mix" if "mix" in searchable(self.keep):
                return equal_mix(self.keep)
            case "meaning" if MEANING in searchable(self.keep):
                return one_layer(n_kept - 1, n_kept)
            case int(number):
                return one_layer(self._place(number), n_kept)
            case str(name) if name not in ("mix", MEANING):
                expected = "a number, 'mix', 'meaning' or weights"
                raise ConfigError(f"layer is {name!r}; expected {expected}.")
            case str(name):
                raise ConfigError(
                    f"layer is '{name}', but the index keeps {self.keep.described()}; build one "
                    f"with keep='{name}'."
                )
            case given:
                return self._given(given, int(np.count_nonzero(equal_mix(self.keep))))

    def _given(self, layer: Sequence[float], n_layers: int) -> Vectors:
        """Weights of the kept layers; the vectors of a lens are not mixed."""
        weights = np.asarray(layer, np.float64)
        if weights.shape != (n_layers,) or not np.isfinite(weights).all() or not weights.any():
            raise ConfigError(
                f"layer is {list(layer)}; expected {n_layers} weights, one for each kept layer, "
                "not all of them 0."
            )
        # cosines do not depend on the scale, and very large weights would overflow in float32
        scaled = np.zeros(len(self.center), np.float32)
        scaled[:n_layers] = weights / np.abs(weights).max()
        return scaled

    def _place(self, layer: int) -> int:
        numbers = numbers_of(self.keep)
        if layer not in numbers:
            raise ConfigError(
                f"layer is {layer}, but the index keeps {self.keep.described()}; ask for "
                f"'{self.default}', or build an index with keep='all'."
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


def numbers_of(keep: LayerChoice) -> tuple[int, ...]:
    """The layers that can be searched one by one."""
    return keep.numbers if isinstance(keep, Layers | LayersAndMeaning) else ()


def searchable(keep: LayerChoice) -> tuple[int | Literal["mix", "meaning"], ...]:
    """All that can be searched."""
    match keep:
        case LayersAndMeaning():
            return *keep.numbers, "mix", MEANING
        case Meaning():
            return (MEANING,)
        case _:
            return *numbers_of(keep), "mix"


def equal_mix(keep: LayerChoice) -> Vectors:
    """The same weight for every kept layer, (K,), and none for a lens beside them."""
    n_kept, _ = keep.shape(1)
    weights = np.full(n_kept, 1 / n_kept, np.float32)
    if isinstance(keep, LayersAndMeaning):
        weights[:-1], weights[-1] = 1 / (n_kept - 1), 0
    return weights


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
