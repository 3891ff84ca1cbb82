"""A pretrained model inside an encoder: its layers computed once and kept (frozen), or trained with
the task, starting at the top (fine-tuned). Either way they are mixed by learned weights.
"""

# B inputs, T words in the longest, L layers, D vector dim
from collections.abc import Iterable
from typing import Literal

from torch import nn

from elmore.elmo import TrainableLayers
from elmore.embedder import Embedder
from elmore.models.layers import LayerStates
from elmore.nn.scalar_mix import ScalarMix
from elmore.tasks.encoded import Dims, Input
from elmore.tasks.encoders.kept_layers import KeptLayers
from elmore.tasks.encoders.source import Batch, Place, SourceOutput, VectorSource

Join = Literal["input", "both", "late"]


class MixedLayers(VectorSource):
    """Learned mixes of layers: one for each place where the vectors are joined."""

    def __init__(self, name: str, join: Join, n_layers: int, dim: int, *, l2: float):
        super().__init__()
        self.name = name
        self.input_mix = None if join == "late" else ScalarMix(n_layers, l2=l2)
        self.late_mix = None if join == "input" else ScalarMix(n_layers, l2=l2)
        self.dims = Dims(dim if self.input_mix else 0, dim if self.late_mix else 0)

    def mix(self, states: LayerStates) -> SourceOutput:
        mixed = [
            None if mix is None else mix(states.layers, states.mask)
            for mix in (self.input_mix, self.late_mix)
        ]
        return SourceOutput(*mixed)

    def mixes(self) -> dict[Place, ScalarMix]:
        places: dict[Place, ScalarMix | None] = {"input": self.input_mix, "late": self.late_mix}
        return {place: mix for place, mix in places.items() if mix is not None}


class FrozenLayers(MixedLayers):
    """Layers from memory or disk; nothing of the model is trained."""

    def __init__(
        self,
        name: str,
        join: Join,
        kept: KeptLayers,
        embedder: Embedder | None = None,
        *,
        l2: float,
    ):
        """`embedder` is the model behind the layers, where it is known."""
        super().__init__(name, join, kept.n_layers, kept.dim, l2=l2)
        self.kept, self.fingerprint, self.n_frozen = kept, kept.fingerprint, None
        if embedder is not None:
            self.n_frozen = sum(p.numel() for p in embedder.model.parameters())
            self.reader = embedder.reader

    def prepare(self, inputs: Iterable[Input]) -> None:
        self.kept.prepare(inputs)

    def forward(self, batch: Batch) -> SourceOutput:
        states = self.kept.batch(batch.inputs)
        device = batch.mask.device
        return self.mix(LayerStates(states.layers.to(device), states.mask.to(device)))


class TunedLayers(MixedLayers):
    """The model itself, trained with the task: each epoch unfreezes one more layer, top first."""

    def __init__(self, name: str, join: Join, embedder: Embedder, *, l2: float):
        super().__init__(name, join, embedder.n_layers, embedder.dim, l2=l2)
        self.fingerprint = embedder.fingerprint
        self.reader = embedder.reader
        self.trainable = TrainableLayers(embedder.checkpoint, fine_tune=True)
        self.floors = self.trainable.model.floors()
        self.begin_epoch(1)

    def begin_epoch(self, epoch: int) -> None:
        """In the first epoch only the task is trained."""
        for depth, floor in enumerate(self.floors, start=1):
            for parameter in floor:
                parameter.requires_grad_(depth < epoch)

    def tuned(self) -> list[nn.Parameter]:
        return [*self.trainable.model.parameters()]

    def forward(self, batch: Batch) -> SourceOutput:
        return self.mix(self.trainable.layers(batch.inputs))
