"""The joint that carries everything downstream: a model's layers and which places are words."""

# L layers, B sentences, T words, D vector dim
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class LayerStates:
    """All layers of some sentences; what made them no longer matters."""

    layers: Tensor  # (L, B, T, D)
    mask: Tensor  # (B, T), true where there is a word

    def without_marks(self) -> "LayerStates":
        """Drop each sentence's first and last word, and zero what is then beyond its end."""
        mask = self.mask[:, 2:]  # (B, T - 2)
        layers = self.layers[:, :, 1:-1] * mask.unsqueeze(-1).to(self.layers.dtype)
        return LayerStates(layers, mask)
