"""SemCor's JSON lines: expressions split, classes of names left out, complaints with their line."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.senses import SenseUse, read_semcor
from tests.shared import SHARED, needs

TOKENS = [
    ["The", "the", "DT", None, None],
    ["Fulton_County_Grand_Jury", "group", "NNP", "group%1:03:00::", "eng30-00031264-n"],
    ["took_place", "take_place", "VB", "take_place%2:30:00::", "eng30-00339934-v"],
    ["last", "last", "JJ", "last%5:00:00:past:00", "eng30-01729384-a"],
    ["years", "year", "NN", "year%1:28:02::;1:28:01::", None],
    ["_", None, None, None, None],
]


def write(folder: Path, *tokens: Any) -> Path:
    path = folder / "toy.jsonl"
    lines = [json.dumps({"doc": "d", "sent": i, "tokens": t}) for i, t in enumerate(tokens)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_expressions_are_words_and_several_senses_are_all_kept(tmp_path: Path):
    (sentence,) = read_semcor(write(tmp_path, TOKENS))
    assert " ".join(sentence.words) == "The Fulton County Grand Jury took place last years _"
    assert sentence.uses == (
        SenseUse(5, 7, ("take_place", "VERB"), ("take_place%2:30:00::",)),
        SenseUse(7, 8, ("last", "ADJ"), ("last%5:00:00:past:00",)),
        SenseUse(8, 9, ("year", "NOUN"), ("year%1:28:02::", "year%1:28:01::")),
    )


def test_a_name_is_no_use_of_its_class(tmp_path: Path):
    common = ["group", "group", "NN", "group%1:03:00::", None]
    (sentence,) = read_semcor(write(tmp_path, [*TOKENS, common]))
    groups = [use for use in sentence.uses if use.lemma == ("group", "NOUN")]
    assert [sentence.words[use.start] for use in groups] == ["group"]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([["The", "the"]], r'line 2: the token is \["The", "the"\]; expected \[form'),
        ([["a", None, "NN", "a%1:00:00::", None]], r"line 2: the token is"),
        ([["a", "a", "NN", "a%7:00:00::", None]], r"line 2: 'a%7:00:00::' is not a WordNet"),
        ([["a", "a", "NN", "a", None]], r"line 2: 'a' is not a WordNet sense key"),
        ([["a", "a", "NN", "a%1:00:00::;2:00:00::", None]], r"different parts of speech"),
        ("The", r"line 2: 'tokens' is a str; expected a list"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, tokens: Any, message: str):
    with pytest.raises(InputError, match=message):
        list(read_semcor(write(tmp_path, TOKENS, tokens)))


@pytest.mark.parametrize("line", ["[]", '{"words": []}', "3"])
def test_a_line_that_is_no_sentence_is_named(tmp_path: Path, line: str):
    path = tmp_path / "toy.jsonl"
    path.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2: expected a JSON object with 'tokens'"):
        list(read_semcor(path))


@pytest.mark.parametrize(("line", "said"), [("{", "place 2: not JSON"), ("[" * 99_999, "too deep")])
def test_a_line_that_is_no_json_is_named(tmp_path: Path, line: str, said: str):
    path = tmp_path / "toy.jsonl"
    path.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"line 2.*{said}"):
        list(read_semcor(path))


@needs("data", "tasks", "wsd")
def test_every_tag_of_the_second_part_is_read_but_those_of_names():
    path = SHARED / "data" / "tasks" / "wsd" / "semcor3.0_brown2.jsonl.xz"
    sentences = list(read_semcor(path))
    names = 0
    for line in _lines(path):
        names += sum(t[2] == "NNP" and t[3] is not None for t in json.loads(line)["tokens"])
    assert names > 1000
    assert len(sentences) == 8956
    assert sum(len(sentence.uses) for sentence in sentences) + names == 86_000


def _lines(path: Path) -> list[str]:
    import lzma

    with lzma.open(path, "rt", encoding="utf-8") as file:
        return file.readlines()
