"""An embedder whose streams are computed by a pool of workers. Whatever takes an embedder takes
this one: it writes the same files, by the same writers, under the same locks.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import torch

from elmore.cluster.address import Place
from elmore.cluster.pool import Pool, in_order
from elmore.cluster.ray_pool import Load, RayPool
from elmore.cluster.shard import EmbedShard, Layers, Shard
from elmore.embedder import Embedder, embeddings_of
from elmore.embedding import Embedding, ReadSentence, Sentence, Vectors
from elmore.errors import ConfigError
from elmore.text.batching import BATCH_WORDS

Item = TypeVar("Item")


class PooledEmbedder(Embedder):
    """The model of `embedder`. Streams go to the pool, one at a time; everything else is computed
    here."""

    def __init__(self, embedder: Embedder, pool: Pool[Shard, Layers]):
        super().__init__(
            embedder.checkpoint, str(embedder.device), embedder.precision, embedder.source
        )
        self._here, self._pool = embedder, pool

    def static(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Here: an index asks for these while a stream is running."""
        return self._here.static(texts)

    def stateful(self) -> NoReturn:
        raise ConfigError(
            "A stateful run reads its sentences one after another, so it has no shards: remove "
            "--on, or --stateful."
        )

    def stream_windows(
        self, items: Iterable[Item], key: Callable[[Item], Sentence], batch_words: int
    ) -> Iterator[list[tuple[Item, Embedding]]]:
        ahead = deque[list[tuple[Item, ReadSentence]]]()

        def shards() -> Iterator[Shard]:
            for number, window in enumerate(self._read_windows(items, key, batch_words)):
                words = [sentence.words for _, sentence in window]
                self.warn_if_unreadable(words)  # here: nobody reads what a worker says
                ahead.append(window)
                yield Shard(number, words, batch_words)

        for layers in in_order(shards(), self._pool):
            window = ahead.popleft()
            found = embeddings_of([sentence for _, sentence in window], layers, self.lens)
            yield [(item, new) for (item, _), new in zip(window, found, strict=True)]


@contextmanager
def embedder_on(
    place: Place | None,
    embedder: Embedder,
    batch_words: int = BATCH_WORDS,
    *,
    told: Callable[[str], None] = lambda _: None,
) -> Iterator[Embedder]:
    """The embedder itself, or one that works on `place`, whose workers end with the block."""
    if place is None:
        yield embedder
        return
    told("Starting Ray." if place.address is None else f"Joining Ray at {place.address}.")
    with embedding_pool(place, embedder, batch_words) as pool, one_thread():
        told(f"Workers: {pool.workers}.")
        yield PooledEmbedder(embedder, pool)


@contextmanager
def one_thread() -> Iterator[None]:
    """What writes beside the workers has one thread: more would take their cores from them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def embedding_pool(place: Place, embedder: Embedder, batch_words: int) -> RayPool[Shard, Layers]:
    if embedder.device.type != "cpu":
        raise ConfigError(f"--on ray computes on CPUs, not on {embedder.device}: --device cpu.")
    model = embedder.model
    load = Load(
        work_bytes=sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())),
        result_bytes=embedder.window_words(batch_words) * embedder.n_layers * embedder.dim * 4,
    )
    return RayPool(EmbedShard(embedder), place, load)
