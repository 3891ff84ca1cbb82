"""Healthy clients are answered beside hostile ones, and memory stays where it was."""

from pathlib import Path

import pytest

from tests.serve.soak import soak


def check(model: str, n_clients: int, seconds: float) -> None:
    report = soak(model, n_clients, seconds)
    assert report.problems() == [], str(report)


def test_a_few_clients_for_some_seconds(tiny_model: Path):
    check(str(tiny_model), 16, 4)


@pytest.mark.slow
def test_many_clients_for_a_minute():
    check("small-en", 64, 60)
