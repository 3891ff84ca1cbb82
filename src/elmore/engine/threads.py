"""Tasks in parallel: each in a thread of its own, in which torch starts no more threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")


def side_by_side(tasks: Sequence[Callable[[], T]], n_threads: int) -> list[T]:
    """The results in the order of the tasks. Threads end with the call, so a fork loses none."""
    if n_threads == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(min(n_threads, len(tasks)), initializer=_one_thread) as pool:
            return [done.result() for done in [pool.submit(_inferred, task) for task in tasks]]
    finally:
        torch.set_num_threads(before)  # a thread's setting is also the default of new threads


def _one_thread() -> None:
    torch.set_num_threads(1)


# Torch's own threads do not exist in a forked process, and it would wait for them forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread)


def _inferred(task: Callable[[], T]) -> T:
    with torch.inference_mode():  # a thread does not inherit it
        return task()
