"""Spans counted by hand and as seqeval counts them; accuracy; the official figures of SQuAD, from
cases published with ports of its script, and by hand; precision, recall and F1 of word senses.
"""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score

from elmore.tasks.scorers.accuracy import label_accuracy, tag_accuracy
from elmore.tasks.scorers.conlleval import span_score
from elmore.tasks.scorers.sense_score import SenseScore, score_senses
from elmore.tasks.scorers.squad_answers import exact_match, normalized, squad_score, token_f1
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


def test_accuracy_is_of_words():
    assert tag_accuracy([("X", "Y"), ("X",)], [("X", "X"), ("X",)]).main == pytest.approx(200 / 3)


def test_accuracy_is_of_examples():
    assert label_accuracy(["1", "0", "7"], ["1", "1", "1"]).main == pytest.approx(100 / 3)
    assert label_accuracy([], []).main == 0.0


def test_one_answer_for_everything_is_told():
    assert label_accuracy(["a", "b"] * 5, ["a"] * 10).notes == ("every prediction is 'a'",)
    assert label_accuracy(["a", "b"] * 5, ["a", "b"] * 5).notes == ()
    assert label_accuracy(["a"] * 10, ["a"] * 10).notes == ()


def test_scorers_need_no_torch():
    code = "import sys, elmore.tasks.scorers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("   Rock    n  Roll.", "rock n roll"),
        ("The Cat", "cat"),
        ("a  an the\tTHE", ""),
        ("theme, another, an", "theme another"),
        ("U.S.A.", "usa"),
        ("the-end", "theend"),  # punctuation goes first, so the article is no word any more
        ("Levi's Stadium", "levis stadium"),
        ("24–10", "24–10"),  # a dash that ASCII does not have is no punctuation to the script
        ("$42.50%", "4250"),
        ("“the” Sea", "“ ” sea"),
        ("", ""),
    ],
)
def test_normalisation(text: str, expected: str):
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [
        # As published with AllenNLP's and torchmetrics' ports of the script.
        ("this is the best span", ["this is a good span", "something irrelevant"], 0, 0.75),
        ("1976", ["1976"], 1, 1),
        ("2 時間 21 分", ["2 時間"], 0, 2 / 3),
        ("rock", ["rock n roll"], 0, 0.5),
        ("the Denver Broncos!", ["Denver Broncos", "The Denver Broncos"], 1, 1),
        # By hand: 2 shared of 3 and 2, a word counts as often as both have it.
        ("Santa Clara California", ["Santa Clara"], 0, 0.8),
        ("no no no yes", ["no no"], 0, 2 / 3),
        ("Paris", ["London"], 0, 0),
        # Nothing is left of either: the script calls it a match that shares no word.
        ("the", ["a"], 1, 0),
        ("", ["x"], 0, 0),
    ],
)
def test_the_best_of_several_answers_counts(
    prediction: str, answers: list[str], exact: float, f1: float
):
    assert max(exact_match(prediction, answer) for answer in answers) == exact
    assert max(token_f1(prediction, answer) for answer in answers) == pytest.approx(f1)
    figures = squad_score([answers], [prediction]).figures
    assert figures == {"F1": pytest.approx(100 * f1), "exact match": 100 * exact}


def test_a_question_without_a_prediction_is_wrong():
    answers = [["the"], ["Paris"]]
    assert squad_score(answers, [None, "Paris"]).figures == {"F1": 50, "exact match": 50}
    assert squad_score(answers, ["", "Paris"]).figures == {"F1": 50, "exact match": 100}


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


def test_where_nothing_was_predicted_it_is_said():
    gold = [["B-PER", "O"], ["B-LOC", "I-LOC"]]
    nothing = span_score(gold, [["O", "O"], ["O", "O"]])
    assert "nothing was predicted, where 2 answers" in nothing.notes[0]
    assert span_score(gold, [["O", "O"], ["B-LOC", "I-LOC"]]).notes == ()
    assert span_score([["O"]], [["O"]]).notes == ()
    assert "nothing was predicted, where 1 " in squad_score([["a bank"]], [""]).notes[0]
    assert squad_score([["a bank"]], ["bank"]).notes == ()
