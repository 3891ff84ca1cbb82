"""Jobs and workers, wherever these are. A job depends on nothing but itself, so any worker may do
it, twice if need be, and a lost worker costs what it was doing.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from elmore.errors import InputError

Job = TypeVar("Job")
Result = TypeVar("Result")

MOST_TRIES = 5


class Pool(Protocol[Job, Result]):
    """Workers."""

    @property
    def room(self) -> int:
        """How many jobs can be started now."""

    @property
    def ahead(self) -> int:
        """How many jobs may be begun before the first of them is taken: this bounds memory."""

    def start(self, job: Job) -> None: ...

    def finished(self) -> list[tuple[Job, Result | None]]:
        """Wait a little. What has ended since; None for a job whose worker was lost."""


def in_order(jobs: Iterable[Job], pool: Pool[Job, Result]) -> Iterator[Result]:
    """The result of every job, in the order of the jobs. A lost job is started again."""
    queue = _Queue(jobs)
    done: dict[int, Result] = {}
    taken = 0
    while True:
        while pool.room and (job := queue.next(below=taken + pool.ahead)) is not None:
            pool.start(job)
        if taken in done:
            yield done.pop(taken)
            taken += 1
        elif queue.exhausted and taken == queue.read:
            break
        else:
            for job, result in queue.own(pool.finished()):
                if result is not None:
                    done[queue.end(job)] = result
                elif not queue.again(job):
                    raise InputError(
                        f"{job} was lost with {MOST_TRIES} workers, one after another; if they "
                        "ran out of memory, use a smaller --batch-words or fewer --workers."
                    )
    if queue.error is not None:
        raise queue.error


def as_finished(
    jobs: Iterable[Job], pool: Pool[Job, Result]
) -> Iterator[tuple[Job, Result | None]]:
    """Every job with its result, the first that has ended first. A lost job is started again; with
    None, if it was lost too often."""
    queue = _Queue(jobs)
    while True:
        while pool.room and (job := queue.next()) is not None:
            pool.start(job)
        if queue.is_done:
            break
        for job, result in queue.own(pool.finished()):
            if result is None and queue.again(job):
                continue
            queue.end(job)
            yield job, result
    if queue.error is not None:
        raise queue.error


class _Queue(Generic[Job]):
    """What is to be started: lost jobs first, then the next of the input."""

    def __init__(self, jobs: Iterable[Job]):
        self._jobs, self._lost = iter(jobs), deque[Job]()
        self._running: dict[int, tuple[int, Job]] = {}  # by the job's id: its number, itself
        self._tries: dict[int, int] = {}  # by number
        self.read = 0
        self.exhausted = False
        self.error: Exception | None = None
        """Of reading the input: raised after the jobs before it, as without workers."""

    @property
    def is_done(self) -> bool:
        return self.exhausted and not self._running

    def next(self, below: int | None = None) -> Job | None:
        """None if nothing is left, or if its number is not below this."""
        if self._lost:
            return self._lost.popleft()
        if self.exhausted or (below is not None and self.read >= below):
            return None
        try:
            job = next(self._jobs, None)
        except Exception as error:
            job, self.error = None, error
        if job is None:
            self.exhausted = True
        else:
            self._running[id(job)] = self.read, job
            self.read += 1
        return job

    def own(self, ended: list[tuple[Job, Result | None]]) -> Iterator[tuple[Job, Result | None]]:
        """Without what is left from a queue that was given up."""
        return ((job, result) for job, result in ended if id(job) in self._running)

    def end(self, job: Job) -> int:
        """Its number."""
        return self._running.pop(id(job))[0]

    def again(self, job: Job) -> bool:
        """Whether the job will be started again."""
        number, _ = self._running[id(job)]
        self._tries[number] = self._tries.get(number, 0) + 1
        if self._tries[number] >= MOST_TRIES:
            return False
        self._lost.append(job)
        return True
