"""Workers on Ray: actors of one core each. What they need for every job, such as a model, goes to
them once, through Ray's object store; after that, jobs go out and results come back. A worker that
dies is replaced, wherever there is a free core, and its jobs are reported as lost.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, Self

import torch

from elmore import __version__
from elmore.cluster.address import Place
from elmore.cluster.pool import Job, Result
from elmore.errors import ConfigError

PATIENCE = 600.0
"""Seconds without any worker before the work is given up."""
_MOST_BAD_STARTS = 3
_POLL_SECONDS = 1.0
_LEAST_STORE = 100_000_000  # bytes; Ray's own minimum is somewhat smaller


class Worker:
    """What runs on a core of the cluster."""

    def __init__(self, work: Callable[[Any], Any]):
        torch.set_num_threads(1)
        self._work = work

    def versions(self) -> tuple[str, str]:
        return versions()

    def do(self, job: Any) -> Any:
        return self._work(job)


def versions() -> tuple[str, str]:
    """What must be the same everywhere for the same bits."""
    return __version__, torch.__version__


@dataclass(eq=False)
class _Hand(Generic[Job]):
    """A worker, as the driver sees it."""

    actor: Any
    ready: bool = False
    jobs: list[Job] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Load:
    """What goes through Ray's object store, and how many jobs a worker has at a time."""

    work_bytes: int
    """What all jobs have in common."""
    result_bytes: int
    """Of one job."""
    jobs_of_a_worker: int = 2
    """One that it does, and one that it need not wait for."""


class RayPool(Generic[Job, Result]):
    """A `Pool` of Ray actors, between `with` and the end of its block."""

    def __init__(self, work: Callable[[Job], Result], place: Place, load: Load):
        self._work, self._place, self._load = work, place, load
        self._hands: list[_Hand[Job]] = []
        self._calls: dict[Any, tuple[_Hand[Job], Job | None]] = {}  # by Ray's reference
        self._bad_starts = 0

    def __enter__(self) -> Self:
        import ray

        self._ray, self._on_term = ray, signal.getsignal(signal.SIGTERM)
        self.workers = self._connect()
        try:
            self._sent_work = ray.put(self._work)
            for _ in range(self.workers):
                self._hire()
            self._wait_for_one()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._hands.clear()
        self._calls.clear()
        self._ray.shutdown()
        if signal.getsignal(signal.SIGTERM) is not self._on_term and self._on_term is not None:
            signal.signal(signal.SIGTERM, self._on_term)  # Ray has put its own there

    # The protocol -------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        most = self._load.jobs_of_a_worker
        return sum(most - len(hand.jobs) for hand in self._hands if hand.ready)

    @property
    def ahead(self) -> int:
        return (self._load.jobs_of_a_worker + 1) * self.workers

    def start(self, job: Job) -> None:
        hand = min((h for h in self._hands if h.ready), key=lambda h: len(h.jobs))
        hand.jobs.append(job)
        self._calls[hand.actor.do.remote(job)] = hand, job

    def finished(self) -> list[tuple[Job, Result | None]]:
        calls = list(self._calls)
        ended, _ = self._ray.wait(calls, num_returns=1, timeout=_POLL_SECONDS)
        if not any(hand.ready for hand in self._hands) and not ended:
            self._check_patience()
        found = [self._end(call) for call in ended if call in self._calls]
        return [pair for pair in found if pair is not None]

    # Workers ------------------------------------------------------------------------------------

    def _hire(self) -> None:
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        hand = _Hand[Job](self._ray.remote(Worker).options(**options).remote(self._sent_work))
        self._hands.append(hand)
        self._calls[hand.actor.versions.remote()] = hand, None
        self._alone_since = monotonic()

    def _wait_for_one(self) -> None:
        while not any(hand.ready for hand in self._hands):
            self.finished()

    def _end(self, call: Any) -> tuple[Job, Result | None] | None:
        """Take the result of a call, or replace its worker."""
        hand, job = self._calls.pop(call)
        errors = self._ray.exceptions
        try:
            result = self._ray.get(call)
        except errors.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from error
        except (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError):
            result = None
        if result is None and hand in self._hands:
            self._replace(hand)
        if job is not None:
            hand.jobs.remove(job)
            return job, result
        if result is not None:
            self._welcome(hand, result)
        return None

    def _welcome(self, hand: _Hand[Job], found: tuple[str, str]) -> None:
        if tuple(found) != versions():
            raise ConfigError(
                f"A worker has elmore {found[0]} and torch {found[1]}, here are {versions()[0]} "
                f"and {versions()[1]}: install the same on every machine."
            )
        hand.ready, self._bad_starts = True, 0

    def _replace(self, hand: _Hand[Job]) -> None:
        self._bad_starts += not hand.ready
        if self._bad_starts >= _MOST_BAD_STARTS:
            raise ConfigError(
                f"{self._bad_starts} workers died while they started; look for memory, "
                "and into Ray's logs (/tmp/ray)."
            )
        hand.ready = False
        self._hands.remove(hand)
        self._ray.kill(hand.actor)
        self._hire()

    def _check_patience(self) -> None:
        if monotonic() - self._alone_since > PATIENCE:
            raise ConfigError(
                f"No worker has started for {PATIENCE:.0f} s: the cluster has no free core. See "
                "`ray status`."
            )

    # The cluster --------------------------------------------------------------------------------

    def _connect(self) -> int:
        """Start Ray here, or join a cluster. Returns how many workers there will be."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
        os.environ.setdefault("RAY_worker_niceness", "0")  # workers do the work: not after others
        quiet = {"log_to_driver": False, "logging_level": "error"}
        n_workers = self._place.workers
        if self._place.address is None:
            n_workers = n_workers or os.cpu_count() or 1
            self._start(n_workers, quiet)
            return n_workers
        try:
            self._ray.init(address=self._place.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"--on ray://{self._place.address}: no such cluster ({str(error).splitlines()[0]}) "
                "Start one with `ray start --head`."
            ) from None
        return n_workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _start(self, n_workers: int, quiet: dict[str, Any]) -> None:
        try:
            self._ray.init(
                address="local",
                num_cpus=n_workers,
                object_store_memory=self._store_bytes(n_workers),
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
        except Exception as error:  # Ray has no kind of its own for this
            raise ConfigError(
                f"Ray did not start ({str(error).splitlines()[0]}) It waits half a minute at most: "
                "if this machine is very busy, try again later."
            ) from error

    def _store_bytes(self, n_workers: int) -> int:
        """Ray spills what is more to disk."""
        under_way = (self._load.jobs_of_a_worker + 1) * n_workers * self._load.result_bytes
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return max(_LEAST_STORE, min(self._load.work_bytes + under_way, memory * 3 // 10))
