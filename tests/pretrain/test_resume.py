"""A run killed with SIGKILL at random moments and gone on with is, to the last bit, the run that
nobody killed: every logged figure, and the weights at the end.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elmore.files.lock import BusyError, Lock
from elmore.train.run_folder import checkpoints
from tests.pretrain.tiny_runs import (
    corpus,
    last_step,
    logged,
    loopback,
    started,
    weights,
)

ROOT = Path(__file__).resolve().parents[2]


def wait_for(moment: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not moment():
        assert time.monotonic() < end, "the run does not come along"
        time.sleep(0.002)


def kill_at_random(kind: str, files: list[Path], folder: Path, chance: random.Random) -> float:
    """SIGKILL some steps on from where the folder stands. Returns the step it was killed at."""
    goal = last_step(logged(folder)) + chance.randint(4, 9)
    process = started(kind, files, folder)
    wait_for(lambda: last_step(logged(folder)) >= goal or not process.is_alive())
    time.sleep(chance.uniform(0.0, 0.02))
    process.kill()
    process.join()
    return last_step(logged(folder))


@pytest.mark.parametrize("kind", ["rows", "sentences", "transformer", "rounded"])
def test_a_killed_and_resumed_run_has_the_same_losses_to_the_last_bit(kind: str, tmp_path: Path):
    files, chance = corpus(tmp_path / "text"), random.Random(kind)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    unkilled = started(kind, files, whole)
    kills = [kill_at_random(kind, files, broken, chance) for _ in range(2)]
    assert kills[0] < 30, "nothing was left to resume"
    last = started(kind, files, broken)
    for process in (unkilled, last):
        process.join()
        assert process.exitcode == 0
    assert len(logged(whole)) >= 10
    assert logged(broken) == logged(whole)
    assert weights(broken) == weights(whole)


def torchrun(kind: str, files: list[Path], folder: Path) -> subprocess.Popen[bytes]:
    """Two processes of `elmore pretrain` under torchrun, on this machine alone."""
    code = "from tests.pretrain.tiny_runs import *; import sys; from pathlib import Path as P; "
    script = folder.parent / "job.py"
    script.write_text(code + f"train({kind!r}, [P(p) for p in sys.argv[2:]], P(sys.argv[1]))\n")
    settings = loopback(2)[0]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    own = {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    port = ["--master-port", settings["MASTER_PORT"]]
    return subprocess.Popen(
        [sys.executable, "-m", *launcher, *port, str(script), str(folder), *map(str, files)],
        env={**os.environ, **own},
        stderr=subprocess.DEVNULL,
    )


def children(pid: int) -> list[int]:
    """Workers of a launcher: whose parent it is, as the system tells."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += [int(stat.parent.name)] if int(fields[1]) == pid else []
    return found


def is_free(folder: Path) -> bool:
    try:
        Lock(folder).release()
    except BusyError:
        return False
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers by /proc")
@pytest.mark.parametrize("launched", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["rows", "rounded"])
def test_two_processes_killed_and_resumed_have_the_same_losses_to_the_last_bit(
    kind: str, launched: bool, tmp_path: Path
):
    files, whole, broken = corpus(tmp_path / "text"), tmp_path / "whole", tmp_path / "broken"
    unkilled = [started(kind, files, whole, environment) for environment in loopback(2)]
    launcher = torchrun(kind, files, broken) if launched else None  # it takes a while to start
    both = [] if launched else [started(kind, files, broken, e) for e in loopback(2)]
    wait_for(lambda: last_step(logged(broken)) >= 7 and bool(checkpoints(broken)))
    for process in both:
        process.kill()
    if launcher is not None:
        for pid in [launcher.pid, *children(launcher.pid)]:
            os.kill(pid, signal.SIGKILL)
        launcher.wait()
    wait_for(lambda: is_free(broken))  # a killed process takes a moment to end
    assert last_step(logged(broken)) < 30
    resumed = [started(kind, files, broken, environment) for environment in loopback(2)]
    for process in (*unkilled, *resumed):
        process.join()
        assert process.exitcode == 0
    assert last_step(logged(whole)) == 30
    assert logged(broken) == logged(whole)
    assert weights(broken) == weights(whole)
