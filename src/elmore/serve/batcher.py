"""Requests that arrive together share a batch. One thread runs the model; requests that arrive
while it computes become the next batch, up to a number of words. When the model is idle, a request
starts at once.
"""

# L layers, n words, D vector dim
import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from elmore.embedding import Vectors
from elmore.serve.config import ServeConfig
from elmore.serve.metrics import Metrics
from elmore.serve.problems import busy

Sentences = list[list[str]]
Embed = Callable[[Sentences], list[Vectors]]

_LONGEST_WAIT = 60  # the most seconds in Retry-After
_FIRST_GUESS = 1000.0  # words/s, before the first batch
_NEW_SHARE = 0.2  # weight of the latest batch in the moving average of the speed


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """The sentences of one request, and the future of their layers."""

    sentences: Sentences
    n_words: int
    done: "asyncio.Future[list[Vectors]]" = field(repr=False)


class Batcher:
    """`async with Batcher(...) as batcher: layers = await batcher.embed(sentences)`."""

    def __init__(self, embed: Embed, config: ServeConfig, metrics: Metrics):
        self._embed, self._config, self._metrics = embed, config, metrics
        self._jobs: deque[_Job] = deque()
        self._queued_words = 0
        self._speed = _FIRST_GUESS
        self._arrived = asyncio.Event()
        self._stopping = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def __aenter__(self) -> "Batcher":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish the current batch; waiting requests are canceled."""
        for job in self._jobs:
            job.done.cancel()
        self._stopping = True
        self._arrived.set()
        await self._task
        self._thread.shutdown()

    async def embed(self, sentences: Sentences) -> list[Vectors]:
        """(L, n, D) of each sentence; refused if the queue is full."""
        n_words = sum(len(words) for words in sentences)
        if self._jobs and self._queued_words + n_words > self._config.queue_words:
            wait = math.ceil(self._queued_words / self._speed)
            raise busy(min(max(1, wait), _LONGEST_WAIT))
        job = _Job(sentences, n_words, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._count(n_words)
        self._arrived.set()
        return await job.done

    async def _run(self) -> None:
        while not self._stopping:
            await self._arrived.wait()
            if batch := self._take():
                await self._compute(batch)
            else:
                self._arrived.clear()

    def _take(self) -> list[_Job]:
        """The next jobs in order, as many as fit; jobs of disconnected clients are dropped."""
        batch: list[_Job] = []
        room = self._config.batch_words
        while self._jobs and (not batch or self._jobs[0].n_words <= room):
            job = self._jobs.popleft()
            self._count(-job.n_words)
            if not job.done.cancelled():
                batch.append(job)
                room -= job.n_words
        return batch

    async def _compute(self, batch: list[_Job]) -> None:
        began = time.perf_counter()
        sentences = [words for job in batch for words in job.sentences]
        try:
            layers = await self._in_thread(sentences)
        except Exception as error:
            await self._compute_apart(batch, error)
            return
        seconds = max(time.perf_counter() - began, 1e-6)
        n_words = sum(job.n_words for job in batch)
        self._speed += _NEW_SHARE * (n_words / seconds - self._speed)
        self._metrics.batch(len(batch), n_words, seconds)
        found = iter(layers)
        for job in batch:
            _answer(job, [next(found) for _ in job.sentences])

    async def _compute_apart(self, batch: list[_Job], error: Exception) -> None:
        """Compute each job separately, so that one bad request does not fail the others."""
        for job in batch:
            try:
                alone = await self._in_thread(job.sentences) if len(batch) > 1 else error
            except Exception as its_own:
                alone = its_own
            _answer(job, alone)

    async def _in_thread(self, sentences: Sentences) -> list[Vectors]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._embed, sentences)

    def _count(self, n_words: int) -> None:
        self._queued_words += n_words
        self._metrics.queued_words.set(self._queued_words)


def _answer(job: _Job, result: list[Vectors] | Exception) -> None:
    if job.done.cancelled():
        return
    if isinstance(result, Exception):
        job.done.set_exception(result)
    else:
        job.done.set_result(result)
