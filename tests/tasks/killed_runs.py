"""Kills a training before each of its writes, resumes it, and says what differs from one that was
never killed. Every training is a fork of this process, so torch may have one thread.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from elmore.tasks.fit import fit
from tests.tasks.tiny_tasks import tagged, tagging_config

CONFIG = tagging_config(epochs=3, patience=1, halve_after=1, lr=0.05)
TRAIN, DEV = tagged(24, seed=1), tagged(12, seed=2)
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.chmod", "os.truncate"}


def differences(folder: Path, every: int) -> Iterator[str]:
    """How many writes there are; then a line for each kill that has changed something."""
    fit(CONFIG, TRAIN[:1], DEV[:1], folder / "warm", device="cpu")  # imports all there is to import
    n = int(child(lambda: count(folder / "whole")))
    whole = found(folder / "whole")
    yield f"{n} writes; log of {len(whole['log'])} epochs"
    for at in range(1, n + 1, every):
        run = folder / f"at-{at}"
        killed = child(lambda at=at, run=run: trained(run, kill_at=at))  # type: ignore[misc]
        assert killed == f"signal {int(signal.SIGKILL)}", killed
        after = child(lambda run=run: trained(run))  # type: ignore[misc]
        differs = [key for key, value in found(run).items() if value != whole[key]]
        if after or differs:
            yield f"killed at {at}: {after} {differs} {found(run)}"


def trained(run: Path, kill_at: int = 0) -> str:
    """Train, and die before the write with this number."""
    events = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if str(run) in str(arguments[:2]) and (event in WRITES or is_write(event, arguments)):
            events[0] += 1
            if events[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    fit(CONFIG, TRAIN, DEV, run, resume=True, device="cpu")
    return str(events[0]) if kill_at < 0 else ""


def count(run: Path) -> str:
    return trained(run, kill_at=-1)


def is_write(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "open" and bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def child(work: Callable[[], str]) -> str:
    """What the work returns in a process of its own, or how that ended."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            torch.set_num_threads(1)
            os.write(writing, work().encode())
            os._exit(0)
        except BaseException as error:
            os.write(writing, repr(error).encode())
            os._exit(1)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as file:
        text = file.read()
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def found(run: Path) -> dict[str, Any]:
    """All that a training leaves, but times."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    paths = sorted(p for p in run.rglob("*") if "tensorboard" not in p.parts)
    weights = [p for p in paths if p.suffix == ".safetensors"]
    return {
        "log": [{**line, "seconds": 0} for line in lines],
        "files": [str(path.relative_to(run)) for path in paths],
        "best": (run / "best").read_text(),
        "weights": [hashlib.sha256(path.read_bytes()).hexdigest() for path in weights],
    }
