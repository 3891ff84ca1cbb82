"""The unit of embedding: one window of a text. Its vectors depend on the model and on it alone."""

# L layers, n words, D vector dim
from dataclasses import dataclass

import numpy as np

from elmore.embedder import Embedder
from elmore.embedding import Vectors

Layers = list[Vectors]  # (L, n, D) for every sentence of a shard


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive sentences, which are computed together."""

    number: int
    sentences: list[list[str]]
    batch_words: int

    def __str__(self) -> str:
        return f"Shard {self.number:,} ({len(self.sentences):,} sentences)"


@dataclass(frozen=True, slots=True)
class EmbedShard:
    """What a worker does with a shard."""

    embedder: Embedder

    def __call__(self, shard: Shard) -> Layers:
        """Its vectors, bit for bit those that `embedder.stream` gives for this window."""
        found = self.embedder.runner.embed(shard.sentences, shard.batch_words)
        return [layers.astype(np.float32, copy=False) for layers in found]
