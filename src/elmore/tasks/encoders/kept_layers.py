"""Layers of a frozen model, computed once and read many times: from memory, or from a store."""

# L layers, n words of a sentence, D vector dim
import time
from collections import ChainMap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from elmore.embedder import Embedder
from elmore.embedding import Layers
from elmore.errors import InputError
from elmore.files.lock import BusyError
from elmore.models.layers import LayerStates
from elmore.store.store import MissingError, Store
from elmore.tasks.encoded import Words
from elmore.text.reader import Reader

_WAIT_SECONDS = 1.0


class KeptLayers(Protocol):
    """Layers that are computed once and read many times."""

    n_layers: int
    dim: int
    fingerprint: str
    n_parameters: int | None
    """Of the model behind them; None where only its vectors are known."""
    reader: Reader | None
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
        self.reader: Reader | None = embedder.reader
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
            self.n_parameters, self.reader = None, None
        else:  # a cache, which gives what the model gives
            self.fingerprint = embedder.fingerprint
            self.n_parameters, self.reader = _size(embedder.model), embedder.reader

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


def _fingerprint(store: Store) -> str:
    """The model's, where the store is as good as it: every layer, at half precision or better."""
    whole = isinstance(store.keep, Layers) and store.keep.numbers == tuple(
        range(store.manifest.n_layers)
    )
    as_good = whole and store.precision != "int8"
    return store.fingerprint if as_good else store.vectors_fingerprint


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
