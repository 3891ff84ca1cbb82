"""Precision, recall and F1 of word senses."""

import pytest

from elmore.tasks.scorers.raganato import SenseScore, score_senses


def test_an_instance_left_open_costs_recall_but_not_precision():
    gold = [("a",), ("a", "b"), ("c",), ("d",)]
    score = score_senses(gold, ["a", "b", "x", None])
    assert score == SenseScore(instances=4, answered=3, right=2)
    assert score.precision == pytest.approx(100 * 2 / 3)
    assert score.recall == pytest.approx(50)
    assert score.f1 == pytest.approx(2 * (200 / 3) * 50 / (200 / 3 + 50))


def test_nothing_answered_scores_nothing():
    score = score_senses([("a",)], [None])
    assert (score.precision, score.recall, score.f1) == (0, 0, 0)


def test_sets_add_up_as_one_set_would():
    gold, answers = [("a",), ("b",), ("c",)], ["a", None, "x"]
    parts = score_senses(gold[:1], answers[:1]) + score_senses(gold[1:], answers[1:])
    assert parts == score_senses(gold, answers)
