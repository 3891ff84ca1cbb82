"""Work for clients that wait, and none for those that have left."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from elmore.serve.problems import RefusedError
from elmore.serve.server import unless_gone


def request(leaves: asyncio.Event) -> Request:
    async def receive() -> Message:
        await leaves.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


def test_a_client_that_waits_gets_the_result():
    async def work() -> int:
        await asyncio.sleep(0)
        return 42

    async def run() -> int:
        return await unless_gone(request(asyncio.Event()), work())

    assert asyncio.run(run()) == 42


def test_what_the_work_raises_is_raised():
    async def work() -> None:
        raise ZeroDivisionError

    async def run() -> None:
        await unless_gone(request(asyncio.Event()), work())

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())


def test_work_is_taken_back_when_the_client_leaves():
    taken_back = []

    async def run() -> None:
        leaves = asyncio.Event()

        async def work() -> None:
            leaves.set()
            try:
                await asyncio.Event().wait()
            finally:
                taken_back.append(True)

        with pytest.raises(RefusedError) as refused:
            await asyncio.wait_for(unless_gone(request(leaves), work()), 5)
        assert refused.value.status == 499
        await asyncio.sleep(0)

    asyncio.run(run())
    assert taken_back == [True]
