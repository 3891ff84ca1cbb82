"""A pretrained model inside an encoder: its layers computed once and kept in memory or in a store
(frozen), or trained with the task, starting at the top (fine-tuned). Either way they are mixed by
learned weights.
"""

# B inputs, T words in the longest, n words of a sentence, L layers, D vector dim
import time
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from elmore.elmo import TrainableLayers
from elmore.embedder import Embedder, LayerSource
from elmore.embedding import Layers
from elmore.errors import ConfigError, InputError
from elmore.files.lock import BusyError
from elmore.models.layers import LayerStates
from elmore.nn.rounding import in_full, widened
from elmore.nn.scalar_mix import ScalarMix
from elmore.store.store import MissingError, Store
from elmore.tasks.encoded import Dims, Input, Words
from elmore.tasks.encoders.source import Batch, Place, SourceOutput, VectorSource
from elmore.text.reader import Pair

Join = Literal["input", "both", "late"]
_WAIT_SECONDS = 1.0
_SAMPLE, _FEWEST = 200, 20  # words that show whether a model can read a text
_LAST = 4


class MixedLayers(VectorSource):
    """Learned mixes of layers: one for each place where the vectors are joined."""

    def __init__(self, name: str, join: Join, n_layers: int, dim: int, *, l2: float):
        super().__init__()
        self.name = name
        self.input_mix = None if join == "late" else ScalarMix(n_layers, l2=l2)
        self.late_mix = None if join == "input" else ScalarMix(n_layers, l2=l2)
        self.dims = Dims(dim if self.input_mix else 0, dim if self.late_mix else 0)

    def mix(self, states: LayerStates) -> SourceOutput:
        layers = widened(states.layers)
        with in_full(layers.device):
            mixed = [
                None if mix is None else mix(layers, states.mask)
                for mix in (self.input_mix, self.late_mix)
            ]
        return SourceOutput(*mixed)

    def unread(self, words: Sequence[str]) -> list[str]:
        return alike(self.name, words, self.lowest)

    def lowest(self, words: Sequence[str]) -> list[NDArray[np.float32]]:
        """The lowest layer (D,) of each word alone; empty where the model is not known."""
        raise NotImplementedError

    def mixes(self) -> dict[Place, ScalarMix]:
        places: dict[Place, ScalarMix | None] = {"input": self.input_mix, "late": self.late_mix}
        return {place: mix for place, mix in places.items() if mix is not None}


def alike(
    name: str, words: Sequence[str], lowest: Callable[[Sequence[str]], list[NDArray[np.float32]]]
) -> list[str]:
    """A note if most of some of these words have one vector, each alone, in the lowest layer."""
    some = words[:: len(words) // _SAMPLE + 1]
    vectors = lowest(some) if len(some) >= _FEWEST else []
    most = max(Counter(vector.tobytes() for vector in vectors).values(), default=0)
    note = f"{name} has one vector for {most} of {len(some)} different words: can it read"
    return [f"{note} this text?"] if 2 * most > len(some) else []


class KeptLayers(Protocol):
    """Layers that are computed once and read many times."""

    n_layers: int
    dim: int
    fingerprint: str

    def prepare(self, inputs: Iterable[Input]) -> None: ...
    def batch(self, inputs: Sequence[Input]) -> LayerStates: ...


class LayersInMemory:
    """Kept as float16, as in a store, so that a run gives the same numbers with or without one."""

    def __init__(self, source: LayerSource):
        self.source = source
        self.n_layers, self.dim, self.fingerprint = source.n_layers, source.dim, source.fingerprint
        self._kept: dict[Words, NDArray[np.float16]] = {}  # (L, n, D) each

    def prepare(self, inputs: Iterable[Input]) -> None:
        self._kept |= self._missing(map(_one_text, inputs))

    def batch(self, inputs: Sequence[Input]) -> LayerStates:
        """What was not prepared is computed but not kept: memory would grow without limit."""
        texts = [_one_text(item) for item in inputs]
        known = ChainMap(self._kept, self._missing(texts))
        return LayerStates.padded([known[words] for words in texts], self.n_layers, self.dim)

    def _missing(self, texts: Iterable[Words]) -> dict[Words, NDArray[np.float16]]:
        missing = dict.fromkeys(words for words in texts if words not in self._kept)
        embeddings = self.source.stream(missing, key=lambda words: words)
        return {words: embedding.layers.astype(np.float16) for words, embedding in embeddings}


class LayersInStore:
    """Layers read from a store; with an embedder, missing ones are computed and added.

    Without one, the fingerprint is the model's if the store is as good as the model: every layer,
    at half precision or better.
    """

    def __init__(self, store: Store, embedder: Embedder | None = None):
        self.store, self.embedder = store, embedder
        self.n_layers, self.dim = store.n_layers, store.dim
        if embedder is not None:  # the store is a cache: its vectors are the model's
            self.fingerprint = embedder.fingerprint
            return
        every = Layers(numbers=tuple(range(store.manifest.n_layers)))
        as_good = store.keep == every and store.precision != "int8"
        self.fingerprint = store.fingerprint if as_good else store.vectors_fingerprint

    @classmethod
    def cached(cls, embedder: Embedder, cache: Path) -> "LayersInStore":
        """All layers as float16 in a folder of the model's own; several runs may share it."""
        path = cache / f"{embedder.fingerprint[:16]}.store"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                return cls(Store.create(path, embedder, precision="float16"), embedder)
        except InputError:  # another run has just made it
            if not path.exists():
                raise
        return cls(Store.open(path, embedder), embedder)

    def prepare(self, inputs: Iterable[Input]) -> None:
        """Wait for another run that is filling the same store: it may be doing this work."""
        asked = [list(words) for words in dict.fromkeys(map(_one_text, inputs))]
        while missing := [words for words in asked if words not in self.store]:
            if self.embedder is None:
                self.store.batch(missing)  # says which sentence is not there
            try:
                self.store.fill(missing)
            except BusyError:
                time.sleep(_WAIT_SECONDS)
                self.store.refresh()

    def batch(self, inputs: Sequence[Input]) -> LayerStates:
        texts = [list(_one_text(item)) for item in inputs]
        try:
            return self.store.batch(texts)
        except MissingError:
            self.prepare(inputs)
        return self.store.batch(texts)


def _one_text(item: Input) -> Words:
    if isinstance(item, Pair):
        raise InputError("Layers are kept of single texts, not of pairs; fine-tune the model.")
    return item


class LastLayers:
    """The last four of some layers side by side, as one layer: BERT's features in its paper."""

    n_layers = 1

    def __init__(self, kept: KeptLayers, name: str):
        if kept.n_layers < _LAST:
            raise ConfigError(
                f"encoder {name!r}: has {kept.n_layers} layers; +last{_LAST} needs {_LAST}."
            )
        self.kept, self.dim = kept, _LAST * kept.dim
        self.fingerprint = f"{kept.fingerprint} last{_LAST}"

    def prepare(self, inputs: Iterable[Input]) -> None:
        self.kept.prepare(inputs)

    def batch(self, inputs: Sequence[Input]) -> LayerStates:
        states = self.kept.batch(inputs)
        joined = torch.cat([*states.layers[-_LAST:]], dim=-1)  # (B, T, 4 D)
        return LayerStates(joined.unsqueeze(0), states.mask)


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
        self.embedder = embedder
        if embedder is not None:
            self.n_frozen = sum(p.numel() for p in embedder.model.parameters())
            self.reader = embedder.reader

    def prepare(self, inputs: Iterable[Input]) -> None:
        self.kept.prepare(inputs)

    def lowest(self, words: Sequence[str]) -> list[NDArray[np.float32]]:
        if self.embedder is None:
            return []
        return [found.layers[0, 0] for found in self.embedder.embed([[word] for word in words])]

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

    @torch.no_grad()
    def lowest(self, words: Sequence[str]) -> list[NDArray[np.float32]]:
        return list(
            self.trainable.layers([(word,) for word in words]).layers[0, :, 0].cpu().numpy()
        )

    def tuned(self) -> list[list[nn.Parameter]]:
        return self.floors

    def forward(self, batch: Batch) -> SourceOutput:
        return self.mix(self.trainable.layers(batch.inputs))
