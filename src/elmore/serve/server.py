"""What the routes share: the model and its batcher, the index, the limits, the metrics."""

# L layers, n words, D vector dim
import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from elmore.embedder import Embedder
from elmore.embedding import ReadSentence, Vectors, read_sentence
from elmore.predictor.place import Place, Substitute
from elmore.predictor.predictor import Predictor
from elmore.search.index import Index
from elmore.serve.batcher import Batcher
from elmore.serve.config import ServeConfig
from elmore.serve.index_service import IndexService, Worker
from elmore.serve.memory import Memory
from elmore.serve.metrics import Metrics
from elmore.serve.problems import RefusedError, too_large
from elmore.serve.schemas import Unreadable
from elmore.text.unreadable import find_unreadable

T = TypeVar("T")
_CLIENT_GONE = 499  # only the metrics see it


class Server:
    """One model and everything that serves it."""

    def __init__(self, embedder: Embedder, index: Index | None, name: str, config: ServeConfig):
        self.embedder, self.name, self.config = embedder, name, config
        self.metrics, self.memory = Metrics(), Memory(config)
        self.metrics.held_bytes.set_function(lambda: self.memory.used)
        self.batcher = Batcher(self._compute, config, self.metrics)
        self.searching = None if index is None else IndexService(index, config)
        self.predictor = Predictor.of(embedder)
        self._predicting = Worker("substitutes", config.queue_searches)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ready for requests, until the block ends."""
        await run_in_threadpool(self._warm_up)
        async with self.batcher:
            yield
        self._predicting.close()
        if self.searching is not None:
            self.searching.close()

    def _warm_up(self) -> None:
        """Do what the first client would otherwise wait for."""
        self._compute([["the"]])
        assert self.embedder.fingerprint
        if self.predictor is not None:
            self.predictor.substitutes([(["the"], 0)])
        if self.searching is not None:
            self.searching.warm_up()

    def _compute(self, sentences: list[list[str]]) -> list[Vectors]:
        found = self.embedder.embed(sentences, batch_words=self.config.batch_words)
        return [embedding.layers for embedding in found]

    async def read(self, sentences: Sequence[str | list[str]]) -> list[ReadSentence]:
        """In a thread, because a long text takes a while and other clients must be served."""
        return await run_in_threadpool(_read_all, sentences, self.config)

    def unreadable(self, reads: list[ReadSentence]) -> Unreadable | None:
        """What the model cannot read, if it is much."""
        found = find_unreadable(self.embedder.reader, [read.words for read in reads])
        if found is None:
            return None
        return Unreadable(share=found.share, message=f"{self.name} {found}")

    async def embed(self, request: Request, reads: list[ReadSentence]) -> list[Vectors]:
        """(L, n, D) of each sentence, unless the client leaves."""
        return await unless_gone(request, self.batcher.embed([read.words for read in reads]))

    async def substitutes(
        self, request: Request, predictor: Predictor, place: Place, top: int
    ) -> list[Substitute]:
        """In a thread of their own, unless the client leaves."""
        found = self._predicting.run(lambda: predictor.substitutes([place], top=top))
        return (await unless_gone(request, found))[0]


def _read_all(sentences: Iterable[str | list[str]], config: ServeConfig) -> list[ReadSentence]:
    """All sentences of a request, or an error as soon as a limit is exceeded."""
    reads: list[ReadSentence] = []
    n_words = 0
    for sentence in sentences:
        reads.append(read_sentence(sentence, len(reads)))
        n_words += len(reads[-1].words)
        if len(reads) > config.max_sentences:
            raise too_large("sentences or more", len(reads), config.max_sentences)
        if n_words > config.max_words:
            raise too_large("words or more", n_words, config.max_words)
    return reads


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Wait for the result while the client is connected; otherwise cancel the work."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RefusedError(_CLIENT_GONE, "The client has gone.")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    """Returns when the client disconnects; the body has been read already."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _server(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


TheServer = Annotated[Server, Depends(_server)]
