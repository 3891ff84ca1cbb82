"""How long a run has trained. A run that is paused (Ctrl-Z, SIGSTOP) does not train: no time passes
for its schedule and its limit.
"""

import signal
import threading
import time
from types import FrameType
from typing import Any


class Clock:
    """Seconds of training, counted from tick to tick. How long a process was paused cannot be
    asked: the time in which it was continued counts as much as the one before."""

    def __init__(self, seconds: float = 0.0):
        self.seconds = seconds
        self._last, self._usual = time.monotonic(), 0.0
        self._continued = False
        self._before: Any = None

    def __enter__(self) -> "Clock":
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGCONT"):
            self._before = signal.signal(signal.SIGCONT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGCONT, self._before)

    def tick(self) -> float:
        now = time.monotonic()
        took, self._last = now - self._last, now
        if self._continued:
            took, self._continued = min(took, self._usual), False
        self._usual = took
        self.seconds += took
        return self.seconds

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._continued = True
