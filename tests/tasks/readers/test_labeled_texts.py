"""A label and a text per line, or CSV: what is read, and what is refused with its place."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.classification import Classification, Labelled
from elmore.tasks.readers.labeled_texts import read_labeled_texts


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hotel.txt", "1\t房间很大，不错！\n\n0\tNot my hotel.\n"),
        ("hotel.csv", 'label,review\n1,房间很大，不错！\n0,"Not my\n hotel."\n'),
        ("hotel.csv", "Text,Label\n房间很大，不错！,1\nNot my hotel.,0\n"),
    ],
)
def test_labels_and_the_words_of_raw_texts(tmp_path: Path, name: str, text: str):
    found = Classification().read(write(tmp_path, name, text), training=True)
    assert found.examples == [
        Labelled(("房间", "很大", "，", "不错", "！"), "1"),
        Labelled(("Not", "my", "hotel", "."), "0"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "1\tgood\nbad\n", r"a\.txt, line 2: 'bad' has no tab"),
        ("a.txt", "1\t \n", r"line 1: the text is empty"),
        ("a.txt", "\tgood\n", r"line 1: the label is empty"),
        ("a.txt", "\n", r"no text found"),
        ("a.csv", "a,b\n1,2\n", r"line 1: the columns are 'a, b'; expected two"),
        ("a.csv", "label,text\n1\n", r"line 2: 1 columns; expected 2"),
        ("a.csv", 'label,text\n1,"open\n', r"line 2: not CSV"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str):
    with pytest.raises(InputError, match=message):
        list(read_labeled_texts(write(tmp_path, name, text)))
