"""How much memory clients can make the server hold: bodies on their way in, and answers that wait
until their clients read them. All of them together have a limit, of which a part is for small ones:
a few large answers that nobody reads must not stop everybody else.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elmore.serve.config import ServeConfig

_LITTLE = 8  # a request above the limit is accepted while others hold at most 1/8 of the limit
_RESERVE = 4  # 1/4 of the limit is for small requests
_SMALL = 64  # those that hold at most 1/64 of the limit


class NoRoomError(Exception):
    """The limit is reached. The guard answers with 429."""


class Hold:
    """What one request holds."""

    def __init__(self, memory: "Memory"):
        self._memory = memory
        self.n_bytes = 0
        self.waiting_since: float | None = None
        """When the client was last sent something, if it has not taken it yet."""
        self.cut_off: Callable[[], None] = lambda: None
        """Ends the request."""

    def add(self, n_bytes: int) -> None:
        """Hold this much more, or raise `NoRoomError`."""
        self._memory.take(self, n_bytes)


class Memory:
    """What all requests hold together."""

    def __init__(self, config: ServeConfig):
        self._most, self._patience = config.held_bytes, config.stall_seconds
        self._holds: set[Hold] = set()

    @property
    def used(self) -> int:
        return sum(hold.n_bytes for hold in self._holds)

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        hold = Hold(self)
        self._holds.add(hold)
        try:
            yield hold
        finally:
            self._holds.discard(hold)

    def take(self, hold: Hold, n_bytes: int) -> None:
        """If there is no room, the clients that have not read for longest lose their answers."""
        while not self._fits(hold, n_bytes):
            stalled = self._longest_stalled(time.monotonic() - self._patience)
            if stalled is None:
                raise NoRoomError
            self._holds.discard(stalled)
            stalled.cut_off()
        hold.n_bytes += n_bytes

    def _fits(self, hold: Hold, n_bytes: int) -> bool:
        others = [other.n_bytes for other in self._holds if other is not hold]
        small, reserve = self._most // _SMALL, self._most // _RESERVE
        wanted = hold.n_bytes + n_bytes
        if wanted <= small and sum(n for n in others if n <= small) + wanted <= reserve:
            return True
        most = self._most if wanted <= small else self._most - reserve
        return sum(others) + wanted <= most or sum(others) <= self._most // _LITTLE

    def _longest_stalled(self, before: float) -> Hold | None:
        """Of the clients that have not read since `before`."""
        waiting = [(hold.waiting_since, id(hold), hold) for hold in self._holds]
        stalled = [(since, i, hold) for since, i, hold in waiting if since and since <= before]
        return min(stalled)[-1] if stalled else None
