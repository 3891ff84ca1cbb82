"""A training killed before any of its writes, and resumed, leaves what one not killed leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def kills(folder: Path, every: int) -> list[str]:
    command = [sys.executable, "-m", "tests.tasks.killed_runs", str(folder), str(every)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.endswith("log of 3 epochs")
    return rest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_before_some_writes_loses_nothing(tmp_path: Path):
    assert kills(tmp_path, every=4) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_before_any_write_loses_nothing(tmp_path: Path):
    assert kills(tmp_path, every=1) == []
