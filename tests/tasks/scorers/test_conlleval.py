"""Spans counted by hand, and as seqeval counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score

from elmore.tasks.scorers.conlleval import span_score
from tests.tasks.test_spans import TAGS


def test_spans_count_when_both_ends_and_the_kind_are_right():
    gold = [("B-X", "E-X", "O", "S-Y"), ("S-X",)]
    found = [("B-X", "E-X", "O", "S-X"), ("O",)]
    figures = span_score(gold, found).figures
    assert list(figures) == ["f1", "precision", "recall"]
    assert figures == pytest.approx({"f1": 40.0, "precision": 50.0, "recall": 100 / 3})
    assert span_score([("O",)], [("O",)]).main == 0.0  # as conlleval


@given(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=5))
@pytest.mark.filterwarnings("ignore::Warning:seqeval")
def test_f1_is_that_of_seqeval(rows: list[tuple[list[str], list[str]]]):
    gold = [a[: min(len(a), len(b))] for a, b in rows]
    found = [b[: min(len(a), len(b))] for a, b in rows]
    ours = span_score(gold, found).figures
    theirs = {
        "f1": f1_score(gold, found, zero_division=0),
        "precision": precision_score(gold, found, zero_division=0),
        "recall": recall_score(gold, found, zero_division=0),
    }
    assert ours == pytest.approx({name: 100 * value for name, value in theirs.items()}, abs=1e-9)
