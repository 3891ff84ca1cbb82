"""Ctrl-C and SIGTERM stop a program only where this leaves nothing half written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Both signals raise KeyboardInterrupt(number), delayed until the next `allowed` block.
    `arrived` is the last one; with `second_at_once` a second signal is not delayed.

    Outside the main thread, where Python cannot handle signals, it does nothing.
    """

    def __init__(self, *, second_at_once: bool = False) -> None:
        self.arrived: int | None = None
        self._second_at_once = second_at_once
        self._before: dict[signal.Signals, Any] = {}
        self._allowed = False

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores signals
                    self._before[number] = signal.signal(number, self._arrive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """The block may be stopped; a signal that came earlier stops it at once."""
        self._allowed = True
        try:
            if self.arrived is not None:
                raise KeyboardInterrupt(self.arrived)
            yield
        finally:
            self._allowed = False

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        at_once = self._allowed or (self._second_at_once and self.arrived is not None)
        self.arrived = number
        if at_once:
            raise KeyboardInterrupt(number)
