"""A lens for meaning: one linear map of some of a model's layers, learned so that a word's vector
predicts the words around it (`elmore lens`). The layers themselves stay as they are.
"""

# L layers of the model, K layers the map reads, D vector dim
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

MEANING: Final = "meaning"
"""What the vectors of a lens are called wherever a layer is chosen."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Lens:
    """y = W [h_a; h_b; …] + b of the layers a, b, …"""

    layers: tuple[int, ...]
    weight: Vectors  # (D, K·D)
    bias: Vectors  # (D,)
    about: str = ""
    """What it was learned from, for people."""

    def __call__(self, layers: Vectors) -> Vectors:
        """(L, n, D) -> (n, D)."""
        dim = layers.shape[-1]
        parts = (
            layers[number] @ self.weight[:, k * dim : (k + 1) * dim].T
            for k, number in enumerate(self.layers)
        )
        return np.asarray(sum(parts, self.bias), np.float32)  # (n, D)

    @cached_property
    def digest(self) -> str:
        """Equal only if the vectors are equal, for the same layers."""
        found = hashlib.sha256(repr(self.layers).encode())
        for array in (self.weight, self.bias):
            found.update(np.ascontiguousarray(array, np.float32).data)
        return found.hexdigest()

    def described(self) -> str:
        numbers = ", ".join(map(str, self.layers))
        named = f"layer {numbers}" if len(self.layers) == 1 else f"layers {numbers}"
        return f"a linear map of {named}" + (f", {self.about}" if self.about else "")
