"""Workers on Ray: actors of one core each. The model goes to them once, through Ray's object store;
after that, words go out and vectors come back. A worker that dies is replaced, wherever there is a
free core, and its shards are reported as lost.
"""

import os
import signal
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Self

import torch

from elmore import __version__
from elmore.cluster.address import Place
from elmore.cluster.shard import Layers, Shard, embed_shard
from elmore.embedder import Embedder
from elmore.errors import ConfigError

PATIENCE = 600.0
"""Seconds without any worker before the work is given up."""
_SHARDS_OF_A_WORKER = 2  # one that it computes, and one that it need not wait for
_MOST_BAD_STARTS = 3
_POLL_SECONDS = 1.0
_LEAST_STORE = 100_000_000  # bytes; Ray's own minimum is somewhat smaller


class Worker:
    """What runs on a core of the cluster."""

    def __init__(self, embedder: Embedder):
        torch.set_num_threads(1)
        self._embedder = embedder

    def versions(self) -> tuple[str, str]:
        return versions()

    def embed(self, shard: Shard) -> Layers:
        return embed_shard(self._embedder, shard)


def versions() -> tuple[str, str]:
    """What must be the same everywhere for the same bits."""
    return __version__, torch.__version__


@dataclass(eq=False)
class _Hand:
    """A worker, as the driver sees it."""

    actor: Any
    ready: bool = False
    shards: list[Shard] = field(default_factory=list)


class RayPool:
    """A `Pool` of Ray actors, between `with` and the end of its block."""

    def __init__(self, embedder: Embedder, place: Place, batch_words: int):
        if embedder.device.type != "cpu":
            raise ConfigError(f"--on ray computes on CPUs, not on {embedder.device}: --device cpu.")
        self._embedder, self._place, self._batch_words = embedder, place, batch_words
        self._hands: list[_Hand] = []
        self._calls: dict[Any, tuple[_Hand, Shard | None]] = {}  # by Ray's reference
        self._bad_starts = 0

    def __enter__(self) -> Self:
        import ray

        self._ray, self._on_term = ray, signal.getsignal(signal.SIGTERM)
        self.workers = self._connect()
        try:
            self._model = ray.put(self._embedder)
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
        return sum(_SHARDS_OF_A_WORKER - len(hand.shards) for hand in self._hands if hand.ready)

    @property
    def ahead(self) -> int:
        return (_SHARDS_OF_A_WORKER + 1) * self.workers

    def start(self, shard: Shard) -> None:
        hand = min((h for h in self._hands if h.ready), key=lambda h: len(h.shards))
        hand.shards.append(shard)
        self._calls[hand.actor.embed.remote(shard)] = hand, shard

    def finished(self) -> list[tuple[Shard, Layers | None]]:
        calls = list(self._calls)
        ended, _ = self._ray.wait(calls, num_returns=1, timeout=_POLL_SECONDS)
        if not any(hand.ready for hand in self._hands) and not ended:
            self._check_patience()
        found = [self._end(call) for call in ended if call in self._calls]
        return [pair for pair in found if pair is not None]

    # Workers ------------------------------------------------------------------------------------

    def _hire(self) -> None:
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        hand = _Hand(self._ray.remote(Worker).options(**options).remote(self._model))
        self._hands.append(hand)
        self._calls[hand.actor.versions.remote()] = hand, None
        self._alone_since = monotonic()

    def _wait_for_one(self) -> None:
        while not any(hand.ready for hand in self._hands):
            self.finished()

    def _end(self, call: Any) -> tuple[Shard, Layers | None] | None:
        """Take the result of a call, or replace its worker."""
        hand, shard = self._calls.pop(call)
        errors = self._ray.exceptions
        try:
            result = self._ray.get(call)
        except errors.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from error
        except (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError):
            result = None
        if result is None and hand in self._hands:
            self._replace(hand)
        if shard is not None:
            hand.shards.remove(shard)
            return shard, result
        if result is not None:
            self._welcome(hand, result)
        return None

    def _welcome(self, hand: _Hand, found: tuple[str, str]) -> None:
        if tuple(found) != versions():
            raise ConfigError(
                f"A worker has elmore {found[0]} and torch {found[1]}, here are {versions()[0]} "
                f"and {versions()[1]}: install the same on every machine."
            )
        hand.ready, self._bad_starts = True, 0

    def _replace(self, hand: _Hand) -> None:
        self._bad_starts += not hand.ready
        if self._bad_starts >= _MOST_BAD_STARTS:
            raise ConfigError(
                f"{self._bad_starts} workers died while they loaded the model; look for memory, "
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
            self._ray.init(
                address="local",
                num_cpus=n_workers,
                object_store_memory=self._store_bytes(n_workers),
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
            return n_workers
        try:
            self._ray.init(address=self._place.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"--on ray://{self._place.address}: no such cluster ({str(error).splitlines()[0]}) "
                "Start one with `ray start --head`."
            ) from None
        return n_workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _store_bytes(self, n_workers: int) -> int:
        """For the model and the vectors that are under way; Ray spills what is more to disk."""
        model = self._embedder.model
        weights = sum(p.nbytes for p in (*model.parameters(), *model.buffers()))
        word = self._embedder.n_layers * self._embedder.dim * 4
        window = self._embedder.window_words(self._batch_words) * word
        wanted = weights + (_SHARDS_OF_A_WORKER + 1) * n_workers * window
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return max(_LEAST_STORE, min(wanted, memory * 3 // 10))
