"""Texts with labels: tables split by tabs or commas, and JSON; complaints name file and line."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.labeled_texts import read_labeled_texts

GOOD, BAD = (("Good", "."), "pos"), (("Not", "good", ",", "no"), "neg")


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "Good.\tpos\n\nNot good, no\tneg\n"),
        ("t.tsv", "label\tid\tsentence\npos\t1\tGood.\nneg\t2\tNot good, no\n"),
        ("t.csv", 'label,review\npos,Good.\nneg,"Not good, no"\n'),
        ("t.csv", 'Good.,pos\n"Not\ngood, no",neg\n'),
        (
            "t.jsonl",
            '{"text": "Good.", "label": "pos"}\n{"label": "neg", "text": "Not good, no"}\n',
        ),
    ],
)
def test_layouts(tmp_path: Path, name: str, text: str):
    found, notes = read_labeled_texts(write(tmp_path, text, name))
    assert (found, notes) == ([GOOD, BAD], ())


def test_texts_without_words_are_left_out_and_numbers_are_labels(tmp_path: Path):
    path = write(tmp_path, '{"text": " ", "label": 1}\n{"text": "Good.", "label": 0}\n', "t.jsonl")
    found, (note,) = read_labeled_texts(path)
    assert found == [(("Good", "."), "0")]
    assert note.endswith("no words: 1")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.tsv", "", "no text found"),
        ("t.tsv", "one column\n", "line 1: 1 columns; expected 2"),
        ("t.tsv", "text\tlabel\na\tb\tc\n", "line 2: 3 columns"),
        ("t.csv", "text,label\ngood,\n", "line 2: the label is ''"),
        ("t.csv", f"text,label\n{'x' * 200_000},a\n", "line 2: not CSV"),
        ("t.jsonl", '{"text": "a"}\n', r"line 1: has \['text'\]"),
        ("t.jsonl", '{"text": "a", "label": true}\n', "label is True"),
        ("t.jsonl", '{"text": 3, "label": 1}\n', "the text is a int"),
        ("t.jsonl", '{"text": "a", "label": 1}\n[]\n', "line 2: a JSON list"),
    ],
)
def test_complaints(tmp_path: Path, name: str, text: str, said: str):
    with pytest.raises(InputError, match=said):
        read_labeled_texts(write(tmp_path, text, name))
