"""What a store keeps of a model's layers: some of them, their average, a learned mix, or a
projection. Each kind is a config in the manifest.
"""

# L layers of the model, K layers kept, n words, D vector dim
from typing import Annotated, Literal

from pydantic import Field

from elmore.config import Frozen
from elmore.embedding import Average, Layers, LayersAsked, Mix, Vectors, layer_choice
from elmore.errors import ConfigError
from elmore.store.projection import Projection


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


Keep = Annotated[Layers | Average | Mix | KeepProjection, Field(discriminator="kind")]
KeepAsked = LayersAsked | Projection


def keep_of(asked: KeepAsked, n_layers: int) -> Layers | Average | Mix | KeepProjection:
    """The checked choice of a caller."""
    if isinstance(asked, Projection):
        return KeepProjection(dim=asked.dim, explained=asked.explained)
    keep = layer_choice(asked, n_layers, "keep")
    if isinstance(keep, Layers) and len(set(keep.numbers)) < len(keep.numbers):
        raise ConfigError(f"keep is {keep.numbers}; expected layer numbers, each once.")
    return keep


def select(keep: Keep, layers: Vectors, projection: Projection | None) -> Vectors:
    """(L, n, D) -> what is kept, (K, n, D)."""
    if isinstance(keep, KeepProjection):
        assert projection is not None
        return projection.project(layers)
    return keep.select(layers)
