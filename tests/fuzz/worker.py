"""A process that opens mutants. It imports elmore once; then each mutant is opened in a forked copy
with limited memory, so that nothing a file does reaches the next one. Prints a JSON line for each.

    python -m tests.fuzz.worker --mutants 20 --seed 1 "store, int8" …
"""

import argparse
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from elmore.errors import ElmoreError
from tests.fuzz.mutations import mutants
from tests.fuzz.readers import READERS, Subject

MAX_SECONDS = 2.0  # of the processor
PATIENCE = 60.0  # seconds of the clock, on a busy machine
MAX_BYTES, MAX_RATIO = 1 << 30, 3
_NO_MEMORY = re.compile(
    r"(unable to|can.?t|cannot) allocate|out of memory|bad_alloc|MemoryError", re.IGNORECASE
)

Outcome = dict[str, Any]


def opened(subject: Subject, path: Path, n_bytes: int) -> Outcome:
    """In a copy of this process."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        try:
            outcome = _attempt(subject, path, max(MAX_BYTES, MAX_RATIO * n_bytes))
            os.write(theirs, json.dumps(outcome).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    said, _, _ = select.select([ours], [], [], PATIENCE)
    raw = os.read(ours, 1 << 16) if said else b""
    os.close(ours)
    if not said:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not said:
        return {"kind": "hang", "said": f"over {PATIENCE} s"}
    if not raw:
        return {"kind": "crash", "said": f"signal {status & 127}"}
    found: Outcome = json.loads(raw)
    return found


def _attempt(subject: Subject, path: Path, most: int) -> Outcome:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + most
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before, start = _peak(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome: Outcome = {"kind": "read", "digest": subject.read(path), "said": ""}
    except ElmoreError as error:
        outcome = {"kind": "refused", "said": str(error)[:400]}
        if "\n" in str(error) or not str(error):
            outcome["kind"] = "not one line"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in last if "elmore" in frame.filename][-1:] or last[-1:]
        place = " ".join(f"{Path(f.filename).name}:{f.lineno}" for f in ours)
        outcome = {"kind": "traceback", "said": f"{type(error).__name__}: {error!s:.200} ({place})"}
    outcome["seconds"] = time.process_time() - start
    outcome["growth"] = _peak() - before
    if outcome["growth"] > most or _NO_MEMORY.search(outcome["said"]):
        outcome["kind"] = "memory"
    elif outcome["seconds"] > MAX_SECONDS:
        outcome["kind"] = "slow"
    return outcome


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def judged(name: str, n: int, seed: int, keep: Path | None = None) -> Iterator[Outcome]:
    """`n` mutants of the files of one reader, in turn."""
    subject, rng = READERS[name], np.random.default_rng([seed, *name.encode()])
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        room = Path(temporary)
        (room / "intact").mkdir()
        made = subject.make(room / "intact").relative_to(room / "intact")
        files = sorted(p for p in (room / "intact").rglob("*") if p.is_file() and p.name != "lock")
        streams = {p: mutants(p.read_bytes(), rng, room / "canary") for p in files}
        subject.read(room / "intact" / made)  # here too, so that what it imports is imported once
        intact = opened(subject, room / "intact" / made, 0)
        if intact["kind"] != "read":
            yield {"kind": "intact", "said": intact["said"], "reader": name}
            return
        for i in range(n):
            path = files[i % len(files)]
            inside = path.relative_to(room / "intact")
            shutil.copytree(room / "intact", room / "mutant")
            mutation, raw = next(streams[path])
            (room / "mutant" / inside).write_bytes(raw)
            outcome = opened(subject, room / "mutant" / made, len(raw))
            if (room / "canary").exists():
                outcome |= {"kind": "executed"}
                (room / "canary").rmdir()
            silent = outcome["kind"] == "read" and outcome["digest"] != intact["digest"]
            if subject.checked and silent:
                outcome["kind"] = "silent"
            if keep is not None and outcome["kind"] not in ("read", "refused"):
                shutil.copytree(room / "mutant", keep / f"{name}-{i}".replace(" ", "_"))
            shutil.rmtree(room / "mutant")
            yield {**outcome, "reader": name, "number": i, "file": str(inside), "how": mutation}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("readers", nargs="*", default=list(READERS))
    parser.add_argument("--mutants", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the mutants that fail")
    given = parser.parse_args()
    for name in given.readers or list(READERS):
        for outcome in judged(name, given.mutants, given.seed, given.keep):
            sys.stdout.write(json.dumps(outcome) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
