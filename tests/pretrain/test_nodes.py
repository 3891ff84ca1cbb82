"""Two launches of torchrun that find each other, as on two machines. One process is killed, or one
whole launch, which is then started again: the run goes on from its newest checkpoint, and is to the
last bit the run that nobody killed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from socket import socket

import pytest

from elmore.train.run_folder import checkpoints
from tests.pretrain.test_resume import ROOT, children, wait_for
from tests.pretrain.tiny_runs import corpus, last_step, logged, loopback, started, weights

pytestmark = pytest.mark.slow
MINUTES = 10 * 60.0


class Nodes:
    """The same command line on both."""

    def __init__(self, files: list[Path], folder: Path):
        self.port = int(loopback(2)[0]["MASTER_PORT"])
        place = f"127.0.0.1:{self.port}"
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", place, "--rdzv-id", "run"]
        shape = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "3"]
        recipe = f"{ROOT / 'tests' / 'pretrain' / 'tiny_runs.py'}:rows"
        verb = ["-m", "elmore", "pretrain", *map(str, files), "--output", str(folder)]
        options = ["--recipe", recipe, "--resume", "--quiet"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--local-addr", "127.0.0.1"]
        self.command = [*torchrun, *shape, *meeting, *verb, *options]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        own = {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        # Otherwise torchrun keeps one store for all restarts, and a restarted process finds in it
        # the addresses of those before, and waits for them forever.
        fresh = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.environment = {**os.environ, **own, **fresh}

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command, env=self.environment, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def is_open(self) -> bool:
        """Whether the others can meet here. The node that has the address must not be lost."""
        with socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.mark.parametrize("killed", ["a process", "a node"])
def test_a_run_on_two_nodes_goes_on_when_one_is_killed(killed: str, tmp_path: Path):
    files, whole, broken = corpus(tmp_path / "text"), tmp_path / "whole", tmp_path / "broken"
    unkilled = [started("rows", files, whole, environment) for environment in loopback(2)]
    nodes = Nodes(files, broken)
    first = nodes.start()
    wait_for(nodes.is_open, MINUTES)
    second = nodes.start()
    wait_for(lambda: last_step(logged(broken)) >= 7 and bool(checkpoints(broken)), MINUTES)
    (victim,) = children(second.pid)
    at = last_step(logged(broken))
    if killed == "a node":
        second.kill()
    os.kill(victim, signal.SIGKILL)
    if killed == "a node":
        second.wait()
        second = nodes.start()
    assert at < 30
    assert [first.wait(MINUTES), second.wait(MINUTES)] == [0, 0]
    for process in unkilled:
        process.join()
    assert last_step(logged(broken)) == 30
    assert logged(broken) == logged(whole)
    assert weights(broken) == weights(whole)
