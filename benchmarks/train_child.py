"""What both sides of the training benchmark share: a case, and the talk with the parent process.
A child says that it is ready, then for every line it reads does one turn of steps and answers with
one line of JSON. Only the standard library, so that the peer's environment can import it.
"""

import json
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: elmore's recipe, and the peer's way of doing the same."""

    title: str
    recipe: str
    target: float
    peer_sparse: bool
    """Whether the peer's softmax has sparse gradients."""
    peer_words: int | None = None
    """The peer's batches: this many words, padding counted, of sentences of like length, or"""
    peer_sentences: int | None = None
    """this many sentences,"""
    peer_sorted: bool = False
    """of like length, or as they come."""
    settings: tuple[str, ...] = ("precision=float32",)
    """What elmore's recipe is changed by."""


@dataclass(frozen=True, slots=True)
class Job:
    """All a child needs to know."""

    case: Case
    folder: Path
    """Holds sentences.txt and vocab.txt, and takes what the child writes."""
    warm_up: int
    steps: int

    def line(self) -> str:
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def read(cls, line: str) -> "Job":
        found: dict[str, Any] = json.loads(line)
        case = Case(**found.pop("case"))
        return cls(case=case, folder=Path(found.pop("folder")), **found)


class Turns:
    """The child's side of the talk. `done` is called after every turn's steps."""

    def __init__(self) -> None:
        self.started = self.cpu_started = 0.0

    def wait(self) -> bool:
        """Until the parent wants a turn; false when it wants no more."""
        told = sys.stdin.readline()
        self.started, self.cpu_started = time.perf_counter(), time.process_time()
        return bool(told.strip())

    def done(self, words: int, loss: float, reading: float | None = None) -> None:
        """`reading`: of the seconds, those spent on making batches, where that can be told."""
        seconds = time.perf_counter() - self.started
        cpu = time.process_time() - self.cpu_started  # of all threads: blind to other processes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in kB
        answer = {"words": words, "seconds": seconds, "cpu": cpu, "reading": reading}
        print(json.dumps({**answer, "loss": loss, "peak": peak}), flush=True)
