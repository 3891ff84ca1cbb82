"""A store as a PyTorch `Dataset`: sentences by their number, read by as many workers as you like.

DataLoader(StoreDataset("squad.store"), batch_size=32, shuffle=True, num_workers=2,
           collate_fn=StoreDataset.collate)
"""

# B sentences, K kept layers, T words in the longest, n words, D vector dim
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from elmore.models.layers import LayerStates
from elmore.store.store import Store


class StoredSentence(NamedTuple):
    """One sentence of a store."""

    number: int
    words: list[str]
    layers: Tensor  # (K, n, D)


class StoredBatch(NamedTuple):
    """Several, padded with zeros."""

    numbers: list[int]
    words: list[list[str]]
    states: LayerStates


class StoreDataset(Dataset[StoredSentence]):
    """Every sentence of a store, as of opening. Each process maps the files for itself."""

    def __init__(self, store: str | Path | Store):
        self.path = Path(store.path if isinstance(store, Store) else store)
        self._store, self._process = Store.open(self.path), os.getpid()
        self._length = len(self._store)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> StoredSentence:
        if not -len(self) <= number < len(self):
            raise IndexError(f"Sentence {number}, but {self.path} has {len(self):,}.")
        if self._process != os.getpid():  # a forked worker
            self._store, self._process = Store.open(self.path), os.getpid()
        number %= len(self)
        found = self._store.at(number)
        return StoredSentence(number, found.words, torch.from_numpy(found.layers))

    @staticmethod
    def collate(sentences: Sequence[StoredSentence]) -> StoredBatch:
        """For a DataLoader."""
        n_layers, _, dim = sentences[0].layers.shape
        states = LayerStates.padded([s.layers.numpy() for s in sentences], n_layers, dim)
        return StoredBatch([s.number for s in sentences], [s.words for s in sentences], states)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "length": self._length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self._length = state["path"], state["length"]
        self._store, self._process = Store.open(self.path), os.getpid()
