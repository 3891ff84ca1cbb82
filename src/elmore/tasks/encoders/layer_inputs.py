"""A biLM inside an encoder: its layers computed once and kept (frozen), or trained along with the
task from the top down (fine-tuned); mixed by learnt weights either way.
"""

# B sentences, T words in the longest, L layers, D vector dim
import time
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from elmore.config import Frozen
from elmore.elmo import Elmo
from elmore.embedder import Embedder
from elmore.errors import InputError
from elmore.files.lock import BusyError
from elmore.models.bilm import BiLM
from elmore.models.layers import LayerStates
from elmore.nn.lstm import BiLSTM
from elmore.nn.scalar_mix import ScalarMix
from elmore.nn.transformer import Stack
from elmore.store.keep import KeepLayers
from elmore.store.store import MissingError, Store
from elmore.tasks.encoded import Dims, Words
from elmore.tasks.encoders.word_inputs import Batch, PartOutput
from elmore.text.batching import Speller

Join = Literal["input", "both", "late"]
Place = Literal["input", "late"]

_WAIT_SECONDS = 1.0


class LearntMix(Frozen):
    """How a task mixes the layers of a biLM: the shares s_j and the scale γ."""

    source: str
    place: Place
    weights: tuple[float, ...]
    gamma: float


class KeptLayers(Protocol):
    """Layers that are computed once and read many times."""

    n_layers: int
    dim: int
    fingerprint: str
    n_parameters: int | None
    """Of the model behind them; None where only its vectors are known."""
    speller: Speller | None
    """The model's."""

    def prepare(self, sentences: Iterable[Words]) -> None: ...
    def batch(self, sentences: Sequence[Words]) -> LayerStates: ...


class LayersInMemory:
    """Kept as float16, as a store would, so that a run gives the same numbers with and without."""

    def __init__(self, embedder: Embedder):
        self.embedder = embedder
        self.n_layers, self.dim = embedder.n_layers, embedder.dim
        self.fingerprint = embedder.fingerprint
        self.n_parameters: int | None = _size(embedder.model)
        self.speller: Speller | None = embedder.speller
        self._kept: dict[Words, NDArray[np.float16]] = {}  # (L, n, D) each

    def prepare(self, sentences: Iterable[Words]) -> None:
        self._kept |= self._missing(sentences)

    def batch(self, sentences: Sequence[Words]) -> LayerStates:
        """What was not prepared is computed and not kept: there may be no end to it."""
        known = ChainMap(self._kept, self._missing(sentences))
        return LayerStates.padded([known[words] for words in sentences], self.n_layers, self.dim)

    def _missing(self, sentences: Iterable[Words]) -> dict[Words, NDArray[np.float16]]:
        missing = dict.fromkeys(words for words in sentences if words not in self._kept)
        embeddings = zip(missing, self.embedder.stream(missing), strict=True)
        return {words: embedding.layers.astype(np.float16) for words, embedding in embeddings}


class LayersInStore:
    """Read from disk; what is missing is computed and added if the model is at hand."""

    def __init__(self, store: Store, embedder: Embedder | None = None):
        self.store, self.embedder = store, embedder
        self.n_layers, self.dim = store.n_layers, store.dim
        if embedder is None:
            self.fingerprint = _fingerprint(store)
            self.n_parameters, self.speller = None, None
        else:  # a cache, which gives what the model gives
            self.fingerprint = embedder.fingerprint
            self.n_parameters, self.speller = _size(embedder.model), embedder.speller

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

    def prepare(self, sentences: Iterable[Words]) -> None:
        """Another run that is filling the same store is waited for; it may be doing this work."""
        asked = dict.fromkeys(sentences)
        while missing := [list(words) for words in asked if list(words) not in self.store]:
            if self.embedder is None:
                self.store.batch(missing)  # says which sentence is not there
            try:
                self.store.fill(missing)
            except BusyError:
                time.sleep(_WAIT_SECONDS)
                self.store.refresh()

    def batch(self, sentences: Sequence[Words]) -> LayerStates:
        lists = [list(words) for words in sentences]
        try:
            return self.store.batch(lists)
        except MissingError:
            self.prepare(sentences)
        return self.store.batch(lists)


class MixedPart(nn.Module):
    """Learnt mixes of layers: one for each place where the vectors are joined."""

    def __init__(self, name: str, join: Join, n_layers: int, dim: int, *, l2: float):
        super().__init__()
        self.name = name
        self.input_mix = None if join == "late" else ScalarMix(n_layers, l2=l2)
        self.late_mix = None if join == "input" else ScalarMix(n_layers, l2=l2)
        self.dims = Dims(dim if self.input_mix else 0, dim if self.late_mix else 0)

    def mix(self, states: LayerStates) -> PartOutput:
        mixed = [
            None if mix is None else mix(states.layers, states.mask)
            for mix in (self.input_mix, self.late_mix)
        ]
        return PartOutput(*mixed)

    def learnt(self) -> list[LearntMix]:
        places: list[tuple[Place, ScalarMix | None]] = [
            ("input", self.input_mix),
            ("late", self.late_mix),
        ]
        return [
            LearntMix(
                source=self.name,
                place=place,
                weights=tuple(mix.weights.tolist()),
                gamma=mix.gamma.item(),
            )
            for place, mix in places
            if mix is not None
        ]


class FrozenPart(MixedPart):
    """Layers from memory or disk; nothing of the biLM is trained."""

    def __init__(self, name: str, join: Join, kept: KeptLayers, *, l2: float):
        super().__init__(name, join, kept.n_layers, kept.dim, l2=l2)
        self.kept = kept

    @property
    def fingerprint(self) -> str:
        return self.kept.fingerprint

    @property
    def n_frozen(self) -> int | None:
        return self.kept.n_parameters

    @property
    def speller(self) -> Speller | None:
        return self.kept.speller

    def prepare(self, sentences: Iterable[Words]) -> None:
        self.kept.prepare(sentences)

    def forward(self, batch: Batch) -> PartOutput:
        states = self.kept.batch(batch.sentences)
        device = batch.mask.device
        return self.mix(LayerStates(states.layers.to(device), states.mask.to(device)))


class TunedPart(MixedPart):
    """The biLM itself, trained along. Its layers are set free one more each epoch, top first."""

    def __init__(self, name: str, join: Join, embedder: Embedder, *, l2: float):
        super().__init__(name, join, embedder.n_layers, embedder.dim, l2=l2)
        self.fingerprint = embedder.fingerprint
        self.speller = embedder.speller
        self.elmo = Elmo(embedder.checkpoint, fine_tune=True, dropout=0.0)
        self.elmo.mixes = nn.ModuleList()  # there is one for each place already
        self.floors = list(_floors(self.elmo.bilm))
        self.begin_epoch(1)

    def begin_epoch(self, epoch: int) -> None:
        """In the first only the task learns; then one floor more in each."""
        for depth, floor in enumerate(self.floors, start=1):
            for parameter in floor:
                parameter.requires_grad_(depth < epoch)

    def forward(self, batch: Batch) -> PartOutput:
        return self.mix(self.elmo.layers(batch.sentences))


def _floors(bilm: BiLM) -> Iterator[list[nn.Parameter]]:
    """The layers of context from the top down, then the words."""
    context = bilm.context
    if isinstance(context, BiLSTM):
        yield from ([*layer.parameters()] for layer in reversed(context.layers))
    else:
        stacks = [stack for stack in context.directions if isinstance(stack, Stack)]
        norms = [p for stack in stacks for p in stack.norm.parameters()]
        for blocks in zip(*(reversed(stack.blocks) for stack in stacks), strict=True):
            yield [*norms, *(p for block in blocks for p in block.parameters())]
            norms = []
    yield [*bilm.words.parameters()]


def _fingerprint(store: Store) -> str:
    """The model's, where the store is as good as it: every layer, at half precision or better."""
    whole = isinstance(store.keep, KeepLayers) and store.keep.numbers == tuple(
        range(store.manifest.n_layers)
    )
    as_good = whole and store.precision != "int8"
    return store.fingerprint if as_good else store.vectors_fingerprint


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
