"""The unit of work: one window of a text. Its vectors depend on the model and on the shard alone,
so any worker may compute it, twice if need be, and a lost worker costs what it was computing.
"""

# L layers, n words, D vector dim
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from elmore.embedder import Embedder
from elmore.embedding import Vectors
from elmore.errors import InputError

Layers = list[Vectors]  # (L, n, D) for every sentence of a shard
MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive sentences, which are computed together."""

    number: int
    sentences: list[list[str]]
    batch_words: int


def embed_shard(embedder: Embedder, shard: Shard) -> Layers:
    """Its vectors, bit for bit those that `embedder.stream` gives for this window."""
    found = embedder.runner.embed(shard.sentences, shard.batch_words)
    return [layers.astype(np.float32, copy=False) for layers in found]


class Pool(Protocol):
    """Workers, wherever they are."""

    @property
    def room(self) -> int:
        """How many shards can be started now."""

    @property
    def ahead(self) -> int:
        """How many shards may be begun before the first of them is taken: this bounds memory."""

    def start(self, shard: Shard) -> None: ...

    def finished(self) -> list[tuple[Shard, Layers | None]]:
        """Wait a little. What has ended since; None for a shard whose worker was lost."""


def in_order(shards: Iterable[Shard], pool: Pool) -> Iterator[Layers]:
    """The vectors of every shard, in the order of the shards. A lost shard is started again."""
    queue = _Queue(shards)
    done: dict[int, Layers] = {}
    taken = 0
    while True:
        while pool.room and (shard := queue.next(below=taken + pool.ahead)) is not None:
            pool.start(shard)
        if taken in done:
            yield done.pop(taken)
            taken += 1
        elif queue.exhausted and taken == queue.read:
            break
        else:
            for shard, layers in pool.finished():
                if layers is None:
                    queue.again(shard)
                else:
                    done[shard.number] = layers
    if queue.error is not None:
        raise queue.error


class _Queue:
    """What is to be started: lost shards first, then the next of the input."""

    def __init__(self, shards: Iterable[Shard]):
        self._shards, self._lost = iter(shards), deque[Shard]()
        self._tries: dict[int, int] = {}
        self.read = 0
        self.exhausted = False
        self.error: Exception | None = None
        """Of reading the input: raised after the shards before it, as without workers."""

    def next(self, below: int) -> Shard | None:
        """None if nothing is left, or if its number is not below this."""
        if self._lost:
            return self._lost.popleft()
        if self.exhausted or self.read >= below:
            return None
        try:
            shard = next(self._shards, None)
        except Exception as error:
            shard, self.error = None, error
        if shard is None:
            self.exhausted = True
        else:
            self.read += 1
        return shard

    def again(self, shard: Shard) -> None:
        tries = self._tries[shard.number] = self._tries.get(shard.number, 0) + 1
        if tries >= MOST_TRIES:
            raise InputError(
                f"Shard {shard.number:,} ({len(shard.sentences):,} sentences) was lost with "
                f"{tries} workers, one after another; if they ran out of memory, use a smaller "
                "--batch-words or fewer --workers."
            )
        self._lost.append(shard)
