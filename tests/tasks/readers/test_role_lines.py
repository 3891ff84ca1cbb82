"""Roles as JSON lines; the layout of a file is told by its first line."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmore.errors import InputError
from elmore.tasks.propositions import RoleSentence
from elmore.tasks.readers.role_lines import read_role_lines, read_roles
from elmore.tasks.spans import Span
from tests.tasks.readers.test_role_columns import CONLL_2012, FULL
from tests.tasks.tiny_roles import proposition

SEE = {"predicate_index": 1, "lemma": "see", "tags": ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"]}
LINE = {"words": ["Anna", "saw", "the", "attack"], "xpos": ["NNP", "VBD", "DT", "NN"]}
ATTACK = {"predicate_index": 3, "tags": ["O", "O", "O", "B-V"]}


def write(path: Path, *props: dict[str, Any], **changes: Any) -> Path:
    path.write_text(json.dumps({**LINE, "props": list(props), **changes}) + "\n")
    return path


def test_a_line_is_a_sentence_with_its_propositions(tmp_path: Path):
    (sentence,) = read_role_lines(write(tmp_path / "a.jsonl", ATTACK, SEE)).examples
    verb, noun = sentence.propositions or ()
    assert verb.pieces == (Span(0, 1, "ARG0"), Span(1, 2, "V"), Span(2, 4, "ARG1"))
    assert (verb.predicate, verb.lemma, verb.is_verb) == (1, "see", True)
    assert (noun.predicate, noun.lemma, noun.is_verb) == (3, "attack", False)


def test_a_proposition_that_is_there_twice_is_used_once(tmp_path: Path):
    corpus = read_role_lines(write(tmp_path / "a.jsonl", SEE, SEE))
    assert len(corpus.examples[0].propositions or ()) == 1
    assert corpus.notes == ("1 propositions that are there twice are used once",)
    other = {**SEE, "tags": ["O", "B-V", "O", "O"]}
    with pytest.raises(InputError, match="line 1: two different propositions have the predicate 1"):
        read_role_lines(write(tmp_path / "a.jsonl", SEE, other))


@pytest.mark.parametrize(
    ("props", "said"),
    [
        ([{**SEE, "predicate_index": 4}], "predicate 4, counted from 0, in a sentence of 4 words"),
        ([{**SEE, "predicate_index": -1}], "predicate -1"),
        ([{**SEE, "predicate_index": "1"}], "needs 'predicate_index' and 'tags'"),
        ([{**SEE, "tags": ["O", "B-V"]}], "2 tags for 4 words"),
        ([{**SEE, "tags": ["I-ARG0", "B-V", "O", "O"]}], "the tag 'I-ARG0' after 'O'"),
        ([{**SEE, "tags": ["B-ARG0", "I-V", "O", "O"]}], "the tag 'I-V' after 'B-ARG0'"),
        ([{**SEE, "tags": ["S-ARG0", "B-V", "O", "O"]}], "the tag 'S-ARG0'"),
        ([{**SEE, "tags": ["B-", "B-V", "O", "O"]}], "the tag 'B-'"),
        ([7], "needs 'predicate_index'"),
    ],
)
def test_wrong_propositions_are_refused_with_file_and_line(
    props: list[dict[str, Any]], said: str, tmp_path: Path
):
    with pytest.raises(InputError, match=rf"a.jsonl, line 1: .*{said}"):
        read_role_lines(write(tmp_path / "a.jsonl", *props))


@pytest.mark.parametrize(
    "changes", [{"words": []}, {"words": "no"}, {"words": ["a", ""]}, {"props": 3}, {"xpos": ["X"]}]
)
def test_wrong_sentences_are_refused_with_file_and_line(changes: dict[str, Any], tmp_path: Path):
    with pytest.raises(InputError, match=r"a.jsonl, line 1: "):
        read_role_lines(write(tmp_path / "a.jsonl", **changes))


def test_the_first_line_tells_the_layout(tmp_path: Path):
    path = write(tmp_path / "a", SEE)
    assert read_roles(path, "auto", None).examples[0].words == tuple(LINE["words"])
    path.write_text(FULL)
    assert read_roles(path, "auto", None).examples[1] == RoleSentence(("Oh",), ())
    path.write_text(CONLL_2012)
    assert read_roles(path, "auto", None).examples[0].words == ("Anna", "planned", "attacks")
    path.write_text("go go (V*)\n")
    (only,) = read_roles(path, "conll2005", 1).examples
    assert only.propositions == (proposition(0, (0, 1, "V")),)
    path.write_text("\n")
    with pytest.raises(InputError, match="no sentence found"):
        read_roles(path, "auto", None)
