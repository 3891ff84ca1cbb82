"""A thread for work without batches, with a limited queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from elmore.serve.problems import busy

T = TypeVar("T")


class Worker:
    """Runs one task after another in its own thread."""

    def __init__(self, name: str, most_waiting: int):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._most_waiting, self._n_inside = most_waiting, 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result; refused if the queue is full."""
        if self._n_inside > self._most_waiting:  # one of them is running, not waiting
            raise busy(1)
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._n_inside -= 1

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
