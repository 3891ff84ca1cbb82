"""The official figures of SQuAD, from cases published with ports of its script, and by hand."""

import pytest

from elmore.tasks.scorers.squad import exact_match, normalized, squad_score, token_f1


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
