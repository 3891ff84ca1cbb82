"""A pool in this process: jobs end in any order, and some of them are lost."""

from collections.abc import Callable
from typing import Generic

from elmore.cluster.pool import Job, Result


class LocalPool(Generic[Job, Result]):
    """Three at a time, the last first; every `lose`-th is lost."""

    room_of_all, ahead = 3, 5

    def __init__(self, work: Callable[[Job], Result], lose: int = 0):
        self.work, self.lose = work, lose
        self.running: list[Job] = []
        self.started: list[Job] = []

    @property
    def room(self) -> int:
        return self.room_of_all - len(self.running)

    def start(self, job: Job) -> None:
        assert self.room > 0
        self.running.append(job)
        self.started.append(job)

    def finished(self) -> list[tuple[Job, Result | None]]:
        job = self.running.pop()
        is_lost = bool(self.lose) and len(self.started) % self.lose == 0
        return [(job, None if is_lost else self.work(job))]
