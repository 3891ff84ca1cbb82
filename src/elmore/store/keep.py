"""What a store keeps of a model's layers: some of them, their average, a learned mix, the vectors
of its lens, or a projection. Each kind is a config in the manifest.

A projection is all layers of a word in a few numbers: the principal components of the concatenated
layers, learned from a sample of words. Restored layers are the closest approximation.
"""

# L layers of the model, K layers kept, n words, D vector dim, N numbers of a projection
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from elmore.config import Frozen
from elmore.embedding import (
    Choice,
    Embedding,
    Layers,
    LayersAsked,
    Vectors,
    layer_choice,
)
from elmore.errors import ConfigError, FormatError
from elmore.models.lens import Lens
from elmore.small_files import file_sha256

_Moment = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """From L·D numbers to N, and back."""

    mean: Vectors  # (L·D,)
    components: Vectors  # (N, L·D), orthonormal rows, the largest variance first
    explained: float
    """The share of the sample's variance that is kept."""

    @property
    def dim(self) -> int:
        return len(self.components)

    @classmethod
    def learn(cls, embeddings: Iterable[Embedding], dim: int) -> "Projection":
        """From a sample: `Projection.learn(embedder.stream(sentences), 256)`."""
        total, outer, n_words = _moments(embeddings)
        if not 1 <= dim <= min(n_words - 1, len(total)):
            raise ConfigError(
                f"A projection to {dim} numbers was asked for; a sample of {n_words:,} words with "
                f"{len(total):,} numbers each allows 1 to {max(1, min(n_words - 1, len(total))):,}."
            )
        mean = total / n_words
        variances, axes = np.linalg.eigh(outer / n_words - np.outer(mean, mean))  # ascending
        components = axes[:, ::-1][:, :dim].T  # (N, L·D)
        largest = np.abs(components).argmax(axis=1)
        components = components * np.sign(components[np.arange(dim), largest])[:, None]
        kept = variances[::-1][:dim].sum() / max(variances.sum(), 1e-30)
        return cls(mean.astype(np.float32), components.astype(np.float32), float(min(kept, 1.0)))

    def project(self, layers: Vectors) -> Vectors:
        """(L, n, D) -> (1, n, N)."""
        projected = (_end_to_end(layers) - self.mean) @ self.components.T  # (n, N)
        return np.asarray(projected[None], np.float32)

    def restore(self, projected: Vectors, n_layers: int) -> Vectors:
        """(1, n, N) -> (L, n, D), the closest approximation."""
        flat = projected[0] @ self.components + self.mean  # (n, L·D)
        layers = flat.reshape(len(flat), n_layers, len(self.mean) // n_layers).transpose(1, 0, 2)
        return np.ascontiguousarray(layers, dtype=np.float32)

    def save(self, path: Path) -> str:
        """Write the mean, then the components. Returns the file's checksum."""
        np.save(path, np.concatenate([self.mean[None], self.components]), allow_pickle=False)
        return file_sha256(path)

    @classmethod
    def load(cls, path: Path, checksum: str, explained: float) -> "Projection":
        if (found := file_sha256(path)) != checksum:
            raise FormatError(
                f"{path}: damaged, its checksum is {found[:12]}, expected {checksum[:12]}; "
                "copy it again from the original store."
            )
        rows = np.load(path, allow_pickle=False)
        return cls(rows[0], rows[1:], explained)


class KeepProjection(Frozen):
    """Principal components of all layers; the numbers are in a file beside the manifest."""

    kind: Literal["projection"] = "projection"
    dim: int = Field(ge=1)
    explained: float
    sha256: str = ""

    def shape(self, _: int) -> tuple[int, int]:
        return 1, self.dim

    def described(self) -> str:
        return f"a projection to {self.dim} numbers, {self.explained:.1%} of the variance"


Keep = Annotated[Choice | KeepProjection, Field(discriminator="kind")]
KeepAsked = LayersAsked | Projection


def keep_of(asked: KeepAsked, n_layers: int, lens: Lens | None = None) -> Choice | KeepProjection:
    """The checked choice of a caller, for a model with this lens or without."""
    if isinstance(asked, Projection):
        return KeepProjection(dim=asked.dim, explained=asked.explained)
    keep = layer_choice(asked, n_layers, "keep", lens)
    if isinstance(keep, Layers) and len(set(keep.numbers)) < len(keep.numbers):
        raise ConfigError(f"keep is {keep.numbers}; expected layer numbers, each once.")
    return keep


def select(keep: Keep, embedding: Embedding, projection: Projection | None) -> Vectors:
    """(L, n, D) -> what is kept, (K, n, D)."""
    if isinstance(keep, KeepProjection):
        assert projection is not None
        return projection.project(embedding.layers)
    return keep.select(embedding.layers, embedding.lens)


def _end_to_end(layers: Vectors) -> Vectors:
    n_layers, n_words, dim = layers.shape
    return layers.transpose(1, 0, 2).reshape(n_words, n_layers * dim)  # (n, L·D)


def _moments(embeddings: Iterable[Embedding]) -> tuple[_Moment, _Moment, int]:
    """Σ x, Σ x xᵀ and the number of words."""
    total, outer, n_words = np.zeros(0), np.zeros((0, 0)), 0
    for embedding in embeddings:
        rows = _end_to_end(embedding.layers).astype(np.float64)  # (n, L·D)
        if not total.size:
            total, outer = np.zeros(rows.shape[1]), np.zeros((rows.shape[1],) * 2)
        total += rows.sum(axis=0)
        outer += rows.T @ rows
        n_words += len(rows)
    return total, outer, n_words
