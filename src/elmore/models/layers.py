"""The joint that carries everything downstream: a model's layers and which places are words."""

# L layers, B sentences, T words, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Vectors = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LayerStates:
    """All layers of some sentences; what made them no longer matters."""

    layers: Tensor  # (L, B, T, D)
    mask: Tensor  # (B, T), true where there is a word

    @classmethod
    def padded(cls, sentences: Sequence[Vectors], n_layers: int, dim: int) -> "LayerStates":
        """Of sentences by themselves, (L, words, D) each; zero beyond a sentence's end."""
        lengths = [layers.shape[1] for layers in sentences]
        shape = (n_layers, len(sentences), max(lengths, default=0), dim)
        padded = np.zeros(shape, np.float32)  # (L, B, T, D)
        for i, layers in enumerate(sentences):
            padded[:, i, : lengths[i]] = layers
        mask = torch.arange(shape[2]) < torch.tensor(lengths, dtype=torch.long).unsqueeze(1)
        return cls(torch.from_numpy(padded), mask)

    def without_marks(self) -> "LayerStates":
        """Drop each sentence's first and last word, and zero what is then beyond its end."""
        mask = self.mask[:, 2:]  # (B, T - 2)
        layers = self.layers[:, :, 1:-1] * mask.unsqueeze(-1).to(self.layers.dtype)
        return LayerStates(layers, mask)
