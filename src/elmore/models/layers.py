"""What everything downstream uses: a model, its layers, and a mask of which places are words."""

# L layers, B sentences, T words, D vector dim
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.text.reader import Batch

Vectors = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LayerStates:
    """All layers of some sentences: words only, no marks and no pieces."""

    layers: Tensor  # (L, B, T, D), zero after a sentence's end
    mask: Tensor  # (B, T), true where there is a word
    pooled: Tensor | None = None  # (B, D)
    """One vector per sentence, from models that have one."""

    @classmethod
    def padded(cls, sentences: Sequence[Vectors], n_layers: int, dim: int) -> "LayerStates":
        """From the layers of each sentence, (L, words, D)."""
        lengths = [layers.shape[1] for layers in sentences]
        shape = (n_layers, len(sentences), max(lengths, default=0), dim)
        padded = np.zeros(shape, np.float32)  # (L, B, T, D)
        for i, layers in enumerate(sentences):
            padded[:, i, : lengths[i]] = layers
        mask = torch.arange(shape[2]) < torch.tensor(lengths, dtype=torch.long).unsqueeze(1)
        return cls(torch.from_numpy(padded), mask)


class LayerModel(nn.Module, ABC):
    """A model that turns what its reader has read into layers of vectors, one per word."""

    config: Frozen
    n_layers: int
    """Layers that come out."""
    dim: int
    """Of the vectors that come out."""
    context_free: bool
    """Whether layer 0 gives a word the same vector in every sentence."""

    @abstractmethod
    def forward(self, batch: Batch) -> LayerStates:
        """Drops marks and pools pieces itself; works on the model's own device."""

    def static(self, batch: Batch) -> Tensor | None:
        """Each input without context, (B, D): the mean of what its words, or pieces, are in a table
        of the model. None from a model without a table."""
        return None

    @abstractmethod
    def floors(self) -> list[list[nn.Parameter]]:
        """Every parameter once, top layer first: for gradual unfreezing and rates per layer."""
