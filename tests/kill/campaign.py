"""SIGKILL at random moments. After each kill what was committed opens; the verb, run again until
nobody kills it, ends with the result of a run that nobody killed.

python -m tests.kill.campaign --kills 1000

Every life is a fork of this process, which has imported everything: a life starts in milliseconds.
"""

import argparse
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import torch

from tests.kill.verbs import VERBS, Result, Verb

for late in ("torch._dynamo", "torch.utils.tensorboard"):  # else every life imports them again
    with suppress(ImportError):
        import_module(late)

MOST_KILLS = 3  # of one piece of work


@dataclass
class Tally:
    """What happened to a verb."""

    verb: str
    kills: int = 0
    inside: int = 0
    """Kills of a life that had begun to write and had not finished."""
    lost: int = 0
    unequal: int = 0
    problems: list[str] = field(default_factory=list)

    def row(self) -> str:
        counts = (self.kills, self.inside, self.lost, self.unequal)
        return f"{self.verb:<12}" + "".join(f"{count:>10,}" for count in counts)


@dataclass(frozen=True)
class Ended:
    """How a life ended."""

    killed: bool
    said: int
    """What the life had said to be committed."""
    error: str


def life(verb: Verb, folder: Path, seconds: float | None) -> Ended:
    """Run the verb in a process of its own, which is killed after some time, if it still lives."""
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _work(verb, folder, tell)
    os.close(tell)
    said, end = b"", None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([heard], [], [], left)[0]:
            os.kill(child, signal.SIGKILL)
            end = None
        elif not (more := os.read(heard, 1 << 16)):
            break
        else:
            said += more
    os.close(heard)
    status = os.waitpid(child, 0)[1]
    numbers, _, error = said.decode("utf-8", "replace").partition("error")
    whole = [int(n) for n in numbers.split("\n")[:-1]]
    return Ended(os.WIFSIGNALED(status), max(whole, default=0), error)


def _work(verb: Verb, folder: Path, tell: int) -> None:
    code = 0
    try:
        torch.set_num_threads(1)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        verb.run(folder, lambda n: (os.write(tell, f"{n}\n".encode()), None)[1])
    except BaseException:
        os.write(tell, f"error{traceback.format_exc()}".encode())
        code = 1
    finally:
        os._exit(code)


def campaign(name: str, kills: int, seed: int = 0) -> Tally:
    """Kill a verb so many times, in memory if the system has a folder there: it need not wait for
    the disk, which SIGKILL does not touch."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        return _campaign(name, kills, Path(folder), seed)


def _campaign(name: str, kills: int, folder: Path, seed: int) -> Tally:
    chance, tally = random.Random(f"{name} {seed}"), Tally(name)
    verb = VERBS[name](folder / "shared")
    begin = time.monotonic()
    (folder / "whole").mkdir()
    unkilled = life(verb, folder / "whole", None)
    assert not unkilled.error, unkilled.error
    seconds, whole = time.monotonic() - begin, verb.result(folder / "whole")
    turn = 0
    while tally.kills < kills:
        work = folder / f"work{turn}"
        work.mkdir()
        turn += 1
        _one(verb, work, whole, tally, lambda: chance.uniform(0.0, 1.1 * seconds))
        shutil.rmtree(work)
        assert turn < 50 * (kills + 1), "it always ends before it is killed"
    return tally


def _one(verb: Verb, work: Path, whole: Result, tally: Tally, moment) -> None:
    """One piece of work, killed up to three times."""
    there = 0
    for _ in range(MOST_KILLS):
        ended = life(verb, work, moment())
        if not ended.killed:
            break
        tally.kills += 1
        tally.inside += any(work.iterdir())
        there = max(there, ended.said)
        try:
            found = verb.committed(work, whole)
            assert found >= there, f"{there} were committed, {found} are there"
            there = found
        except Exception:
            tally.lost += 1
            tally.problems.append(f"lost: {traceback.format_exc()}")
            return
    if ended.killed:
        ended = life(verb, work, None)
    try:
        assert not ended.error, ended.error
        assert verb.result(work) == whole, "the result differs"
    except Exception:
        tally.unequal += 1
        tally.problems.append(f"unequal: {traceback.format_exc()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="of all verbs together")
    parser.add_argument("--verb", choices=list(VERBS), help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    names = [asked.verb] if asked.verb else list(VERBS)
    each = -(-asked.kills // len(names))
    print(f"{'verb':<12}{'kills':>10}{'inside':>10}{'lost':>10}{'unequal':>10}", flush=True)
    total = Tally("all")
    for name in names:
        tally = campaign(name, each, asked.seed)
        print(tally.row(), flush=True)
        for problem in tally.problems[:3]:
            print(problem, file=sys.stderr)
        total.kills += tally.kills
        total.inside += tally.inside
        total.lost += tally.lost
        total.unequal += tally.unequal
    print(total.row())
    return 1 if total.lost or total.unequal else 0


if __name__ == "__main__":
    sys.exit(main())
