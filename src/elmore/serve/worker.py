"""Work that has no batches, a thread for each kind, and an end to how much may wait for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from elmore.serve.problems import busy

T = TypeVar("T")


class Worker:
    """One piece of work after the other, in a thread of its own."""

    def __init__(self, name: str, most_waiting: int):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._most_waiting, self._n_inside = most_waiting, 0

    async def run(self, work: Callable[[], T]) -> T:
        """Its result; refused when as many as may are waiting already."""
        if self._n_inside > self._most_waiting:  # one of them is not waiting but being served
            raise busy(1)
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._n_inside -= 1

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
