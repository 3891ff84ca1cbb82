"""Layers of a frozen model, computed once and read many times: from memory, or from a store."""

# L layers, n words of a sentence, D vector dim
import time
from collections import ChainMap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import Embedder, LayerSource
from elmore.embedding import Layers
from elmore.errors import InputError
from elmore.files.lock import BusyError
from elmore.models.layers import LayerStates
from elmore.store.store import MissingError, Store
from elmore.tasks.encoded import Input, Words
from elmore.text.reader import Pair

_WAIT_SECONDS = 1.0


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
