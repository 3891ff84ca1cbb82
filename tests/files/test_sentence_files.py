"""Sentences from files: words by spaces or by the tokenizer, lines split or whole, blank or not."""

from pathlib import Path
from typing import Any

import pytest

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles, line_words

RAW = "We sat down. It rained!\n\n \u3000\nDr. No can't.\n"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text(RAW, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["We sat down. It rained!", "Dr. No can't."]),
        ({"split_lines": True}, ["We sat down. It rained!", "Dr. No can't."]),
        ({"keep_blank": True}, ["We sat down. It rained!", "", "", "Dr. No can't."]),
        ({"tokenize": True}, ["We sat down . It rained !", "Dr. No ca n't ."]),
        (
            {"tokenize": True, "keep_blank": True},
            ["We sat down . It rained !", "", "", "Dr. No ca n't ."],
        ),
        (
            {"tokenize": True, "split_lines": True},
            ["We sat down .", "It rained !", "Dr. No ca n't ."],
        ),
    ],
)
def test_each_option_does_what_it_says(raw: Path, options: dict[str, Any], found: list[str]):
    assert [" ".join(words) for words in SentenceFiles([raw], **options)] == found


def test_files_follow_each_other_and_can_be_read_again(tmp_path: Path, raw: Path):
    other = tmp_path / "other.txt"
    other.write_text("a b\n")
    files = SentenceFiles([other, str(raw), other], tokenize=True)
    assert [len(words) for words in files] == [2, 7, 5, 2]
    assert list(files) == list(files)


def test_bytes_that_are_not_utf8_are_refused_or_replaced(tmp_path: Path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"na\xefve view\n")
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        list(SentenceFiles([path]))
    assert list(SentenceFiles([path], errors="replace")) == [["na\ufffdve", "view"]]


def test_nothing_is_opened_before_it_is_read(tmp_path: Path):
    files = SentenceFiles([tmp_path / "none.txt"])
    with pytest.raises(InputError, match="no such file"):
        next(iter(files))


@pytest.mark.parametrize(
    ("line", "tokenize", "words"),
    [
        (" a  b,c \t", False, ["a", "b,c"]),
        (" a  b,c \t", True, ["a", "b", ",", "c"]),
        ("", True, []),
        ("", False, []),
    ],
)
def test_a_line_is_split_by_spaces_or_by_the_tokenizer(line: str, tokenize: bool, words: list[str]):
    assert line_words(line, tokenize=tokenize) == words
