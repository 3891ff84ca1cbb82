"""A training killed before any of its writes, and resumed, leaves what one not killed leaves."""

import os
from pathlib import Path

import pytest

from tests.tasks.killed_runs import differences


def kills(folder: Path, every: int) -> list[str]:
    first, *rest = differences(folder, every)
    assert first.endswith("log of 3 epochs")
    return rest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_before_some_writes_loses_nothing(tmp_path: Path):
    assert kills(tmp_path, every=4) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_before_any_write_loses_nothing(tmp_path: Path):
    assert kills(tmp_path, every=1) == []
