"""Who shares a batch with whom, who is turned away, and that nobody pays for another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from elmore.embedding import Vectors
from elmore.serve.batcher import Batcher, Sentences
from elmore.serve.config import ServeConfig
from elmore.serve.metrics import Metrics
from elmore.serve.problems import RefusedError


class GatedModel:
    """A model that waits to be let go on, and remembers what it was asked for together."""

    def __init__(self) -> None:
        self.gate, self.began = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def __call__(self, sentences: Sentences) -> list[Vectors]:
        self.batches.append([words[0] for words in sentences])
        self.began.set()
        assert self.gate.wait(10)
        if any("poison" in words for words in sentences):
            raise ValueError("poison")
        return [np.full((1, len(words), 1), float(words[0][-1]), np.float32) for words in sentences]


def with_batcher(
    work: Callable[[Batcher, GatedModel], Awaitable[None]], **limits: int
) -> GatedModel:
    """Run `work` beside a batcher; the model, with all it was asked for."""
    model = GatedModel()

    async def run() -> None:
        async with Batcher(model, ServeConfig(**limits), Metrics()) as batcher:
            await asyncio.wait_for(work(batcher, model), 10)
        model.gate.set()

    asyncio.run(run())
    return model


async def ask(batcher: Batcher, *words: str) -> "asyncio.Task[list[Vectors]]":
    """One sentence, queued by the time this returns."""
    task = asyncio.create_task(batcher.embed([list(words)]))
    await asyncio.sleep(0)
    return task


async def begun(model: GatedModel) -> None:
    await asyncio.to_thread(model.began.wait, 10)


def test_an_idle_model_starts_at_once_and_what_arrives_meanwhile_goes_together():
    async def work(batcher: Batcher, model: GatedModel) -> None:
        first = await ask(batcher, "w1")
        await begun(model)
        others = [await ask(batcher, f"w{i}") for i in (2, 3, 4)]
        model.gate.set()
        answers = await asyncio.gather(first, *others)
        assert [float(layers[0, 0, 0]) for (layers,) in answers] == [1, 2, 3, 4]

    assert with_batcher(work).batches == [["w1"], ["w2", "w3", "w4"]]


def test_a_batch_ends_before_the_request_that_would_not_fit():
    async def work(batcher: Batcher, model: GatedModel) -> None:
        tasks = [await ask(batcher, "w0")]
        await begun(model)
        tasks += [
            await ask(batcher, *words.split()) for words in ("a1 x", "b2 x", "c3 x x x", "d4")
        ]
        model.gate.set()
        await asyncio.gather(*tasks)

    batches = with_batcher(work, batch_words=5).batches
    assert batches == [["w0"], ["a1", "b2"], ["c3", "d4"]]


def test_a_request_larger_than_a_batch_is_computed_alone():
    async def work(batcher: Batcher, model: GatedModel) -> None:
        model.gate.set()
        (layers,) = await batcher.embed([["w7"] * 9])
        assert layers.shape == (1, 9, 1)

    with_batcher(work, batch_words=2)


def test_a_full_queue_turns_away_and_says_when_to_come_back():
    async def work(batcher: Batcher, model: GatedModel) -> None:
        tasks = [await ask(batcher, "w1")]
        await begun(model)
        tasks.append(await ask(batcher, *["w2"] * 4))
        with pytest.raises(RefusedError) as refused:
            await batcher.embed([["w3", "w3"]])
        assert refused.value.status == 429
        assert refused.value.headers == {"Retry-After": "1"}
        tasks.append(await ask(batcher, "w4"))  # this one still fits
        model.gate.set()
        await asyncio.gather(*tasks)
        assert await batcher.embed([["w5", "w5"]])

    with_batcher(work, queue_words=5)


def test_a_client_that_has_gone_is_not_computed_for():
    async def work(batcher: Batcher, model: GatedModel) -> None:
        first = await ask(batcher, "w1")
        await begun(model)
        gone, stays = await ask(batcher, "w2"), await ask(batcher, "w3")
        gone.cancel()
        model.gate.set()
        await asyncio.gather(first, stays)

    assert with_batcher(work).batches == [["w1"], ["w3"]]


def test_a_request_that_fails_does_not_fail_its_batch_mates():
    async def work(batcher: Batcher, model: GatedModel) -> None:
        first = await ask(batcher, "w1")
        await begun(model)
        good, bad = await ask(batcher, "w2"), await ask(batcher, "w3", "poison")
        model.gate.set()
        await first
        ((layers,), error) = await asyncio.gather(good, bad, return_exceptions=True)
        assert layers[0, 0, 0] == 2
        assert isinstance(error, ValueError)

    with_batcher(work)


def test_stopping_finishes_the_batch_at_work_and_leaves_nobody_waiting():
    async def run() -> None:
        model = GatedModel()
        async with Batcher(model, ServeConfig(), Metrics()) as batcher:
            working = await ask(batcher, "w1")
            await begun(model)
            waiting = await ask(batcher, "w2")
            threading.Timer(0.1, model.gate.set).start()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 1)
        assert working.done()
        assert model.batches == [["w1"]]

    asyncio.run(run())
