"""Accuracy of labels and of tags."""

import subprocess
import sys

import pytest

from elmore.tasks.scorers.labels import label_accuracy, tag_accuracy


def test_accuracy_is_of_words():
    assert tag_accuracy([("X", "Y"), ("X",)], [("X", "X"), ("X",)]).main == pytest.approx(200 / 3)


def test_accuracy_is_of_examples():
    assert label_accuracy(["1", "0", "7"], ["1", "1", "1"]).main == pytest.approx(100 / 3)
    assert label_accuracy([], []).main == 0.0


def test_scorers_need_no_torch():
    rooms = ", ".join(
        f"elmore.tasks.scorers.{n}" for n in ("conlleval", "labels", "raganato", "squad")
    )
    code = f"import sys, {rooms}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
