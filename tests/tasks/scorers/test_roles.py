"""Roles counted as srl-eval.pl counts them: its own output, to the last printed digit, and cases
worked by hand."""

import json
from typing import Any

import pytest

from elmore.tasks.propositions import Argument, Proposition, arguments_of
from elmore.tasks.readers.role_columns import read_props
from elmore.tasks.scorers.counts import Counts
from elmore.tasks.scorers.roles import RoleCounts, role_counts, subset
from elmore.tasks.spans import Span, spans_of
from tests.shared import SHARED, needs
from tests.tasks.tiny_roles import proposition

REFERENCE = SHARED / "fixtures" / "srl-eval"
CASES = [f"{n:02}" for n in range(1, 9)]


def expected(case: str) -> dict[str, Any]:
    return json.loads((REFERENCE / "expected.json").read_text())[CASES.index(case)]


def printed(figures: dict[str, float]) -> dict[str, str]:
    return {name: str(n) if isinstance(n, int) else f"{n:.2f}" for name, n in figures.items()}


def check(found: RoleCounts, want: dict[str, Any]) -> None:
    assert f"{found.perfect:.2f}" == f"{want['perfect_props_percent']:.2f}"
    assert (found.sentences, found.propositions) == (want["sentences"], want["propositions"])
    figures = found.figures()
    assert list(figures["labels"]) == sorted(want["labels"])
    pairs = [(figures["overall"], want["overall"])]
    pairs += [(figures["labels"][role], want["labels"][role]) for role in want["labels"]]
    for ours, theirs in pairs:
        assert printed({name: ours[name] for name in theirs}) == printed(theirs)


@needs("fixtures", "srl-eval", "expected.json")
@pytest.mark.parametrize("case", CASES)
def test_columns_give_the_figures_of_the_perl_script(case: str):
    files = (REFERENCE / f"{case}.{kind}.props" for kind in ("gold", "pred"))
    check(role_counts(*read_props(*files)), expected(case))


@needs("fixtures", "srl-eval", "expected.json")
@pytest.mark.parametrize("case", CASES)
def test_bio_tags_give_the_same_figures(case: str):
    lines = (REFERENCE / f"{case}.bio.jsonl").read_text().splitlines()
    gold, found = (
        [
            [Proposition(i, lemma, tuple(spans_of(tags.split()))) for i, lemma, tags in s[kind]]
            for s in map(json.loads, lines)
        ]
        for kind in ("gold", "pred")
    )
    check(role_counts(gold, found), expected(case))


def scored(gold: Proposition, *found: Proposition) -> dict[str, Counts]:
    """The counts that are not zero."""
    return role_counts([[gold]], [found]).counts.labels


def test_the_pieces_of_a_discontinuous_argument_are_one():
    pieces = (Span(0, 1, "ARG1"), Span(2, 3, "V"), Span(3, 4, "C-ARG1"), Span(5, 6, "C-ARG1"))
    joined, verb = arguments_of(pieces)
    assert joined == Argument("ARG1", ((0, 1), (3, 4), (5, 6)))
    assert verb.role == "V"


def test_a_continuation_belongs_to_the_last_of_its_role():
    pieces = (Span(0, 1, "ARG1"), Span(1, 2, "ARG1"), Span(3, 4, "C-ARG1"))
    assert arguments_of(pieces) == [
        Argument("ARG1", ((0, 1),)),
        Argument("ARG1", ((1, 2), (3, 4))),
    ]


def test_all_pieces_must_be_right():
    gold = proposition(1, (0, 1, "ARG1"), (2, 4, "C-ARG1"))
    assert scored(gold, gold) == {"ARG1": Counts(1, 0, 0)}
    for wrong in (
        proposition(1, (0, 1, "ARG1")),
        proposition(1, (0, 4, "ARG1")),
        proposition(1, (0, 1, "ARG1"), (2, 3, "C-ARG1"), (3, 4, "C-ARG1")),  # the same outer span
    ):
        assert scored(gold, wrong) == {"ARG1": Counts(0, 1, 1)}


def test_a_continuation_of_nothing_is_an_argument():
    gold = proposition(1, (2, 4, "ARG1"))
    assert scored(gold, proposition(1, (2, 4, "C-ARG1"))) == {"ARG1": Counts(1, 0, 0)}


def test_a_reference_is_a_role_of_its_own():
    gold = proposition(1, (0, 1, "R-ARG1"))
    assert scored(gold, proposition(1, (0, 1, "ARG1"))) == {
        "ARG1": Counts(0, 1, 0),
        "R-ARG1": Counts(0, 0, 1),
    }


def test_the_predicate_is_listed_but_not_counted():
    gold = proposition(1, (0, 1, "ARG0"), (1, 2, "V"))
    found = role_counts([[gold]], [[proposition(1, (0, 1, "ARG0"), (1, 3, "V"))]])
    assert found.counts.labels["V"] == Counts(0, 1, 1)
    assert found.counts.overall == Counts(1, 0, 0)
    assert found.perfect == 100


def test_a_proposition_that_gold_does_not_have_is_skipped():
    gold, other = proposition(1, (0, 1, "ARG0")), proposition(4, (5, 6, "ARG1"))
    found = role_counts([[gold]], [[gold, other]])
    assert found.counts.overall == Counts(1, 0, 0)
    assert (found.skipped, found.missing, found.propositions) == (1, 0, 1)
    swapped = role_counts([[gold, other]], [[gold]])  # for the precision
    assert swapped.counts.overall == Counts(1, 0, 1)
    assert (swapped.skipped, swapped.missing, swapped.perfect) == (0, 1, 50)


def test_another_lemma_loses_all_arguments():
    gold = proposition(1, (0, 1, "ARG0"))
    found = role_counts([[gold]], [[proposition(1, (0, 1, "ARG0"), lemma="come")]])
    assert found.counts.overall == Counts(0, 0, 1)
    assert found.other_lemmas == 1


def test_nothing_at_all_scores_zero():
    found = role_counts([[]], [[]])
    assert found.figures()["overall"] == {
        "correct": 0, "excess": 0, "missed": 0, "precision": 0, "recall": 0, "f1": 0,
        "perfect": 0, "propositions": 0, "sentences": 1,
    }  # fmt: skip
    assert found.figures()["labels"] == {}


def test_verbs_and_others_are_told_apart():
    verb, noun = Proposition(0, "go", ()), Proposition(1, "attack", (), is_verb=False)
    assert subset([[verb, noun]], verbs=True) == [[verb]]
    assert subset([[verb, noun]], verbs=False) == [[noun]]
