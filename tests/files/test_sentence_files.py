"""Sentences from files: words by spaces or by the tokenizer, lines split or whole, blank or not."""

import textwrap
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import pytest

from elmore.errors import ElmoreWarning, InputError
from elmore.files import sentence_files
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
        ({"as_is": True}, ["We sat down. It rained!", "Dr. No can't."]),
        ({"as_is": True, "lines": "paragraph"}, ["We sat down. It rained!", "Dr. No can't."]),
        (
            {"as_is": True, "keep_blank": True},
            ["We sat down. It rained!", "", "", "Dr. No can't."],
        ),
        (
            {"tokenize": True, "lines": "sentence"},
            ["We sat down . It rained !", "Dr. No ca n't ."],
        ),
        (
            {"tokenize": True, "lines": "sentence", "keep_blank": True},
            ["We sat down . It rained !", "", "", "Dr. No ca n't ."],
        ),
        ({"tokenize": True}, ["We sat down .", "It rained !", "Dr. No ca n't ."]),
        (
            {"tokenize": True, "lines": "paragraph"},
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
    assert [len(words) for words in files] == [2, 4, 3, 5, 2]
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


# Raw text -----------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    return path


PROSE = "When the boat came in, nobody waited; the harbor was empty. We went home.\n"


def test_raw_text_is_refused_with_the_cure(tmp_path: Path):
    path = write(tmp_path, PROSE * 10)
    with pytest.raises(
        InputError, match=r"raw text \(such as 'in,'\).*--tokenize.*--as-is"
    ) as told:
        next(iter(SentenceFiles([path])))
    assert str(told.value).startswith(f"{path}: ")
    assert next(iter(SentenceFiles([path], as_is=True))) == PROSE.split()
    assert len(list(SentenceFiles([path], tokenize=True))) == 20


def test_a_little_raw_text_is_warned_about_and_read(tmp_path: Path):
    path = write(tmp_path, PROSE)
    with pytest.warns(ElmoreWarning, match="looks like raw text"):
        assert list(SentenceFiles([path])) == [PROSE.split()]


def test_every_file_is_checked(tmp_path: Path):
    good = tmp_path / "good.txt"
    good.write_text("a b .\n")
    found = iter(SentenceFiles([good, write(tmp_path, PROSE * 10)]))
    assert next(found) == ["a", "b", "."]
    with pytest.raises(InputError, match="raw text"):
        next(found)


def test_damage_after_the_first_lines_is_told_in_its_place(tmp_path: Path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"a b\nc d\n\xff\n")
    found = iter(SentenceFiles([path]))
    assert [next(found), next(found)] == [["a", "b"], ["c", "d"]]
    with pytest.raises(InputError, match="line 3: not UTF-8"):
        next(found)


# Wrapped text -------------------------------------------------------------------------------------

WRAPPED = "\n".join([*textwrap.wrap(PROSE * 3, 60), ""]) + "\n"


def test_wrapped_lines_are_joined_and_this_is_said(tmp_path: Path):
    path = write(tmp_path, WRAPPED * 8)
    with pytest.warns(ElmoreWarning, match="wrapped after about 59 characters"):
        found = list(SentenceFiles([path], tokenize=True))
    assert found == list(SentenceFiles([write(tmp_path, PROSE * 24)], tokenize=True))
    path = write(tmp_path, WRAPPED * 8)
    whole = SentenceFiles([path], tokenize=True, lines="paragraph")
    assert sum(map(len, whole)) == sum(map(len, found))
    assert len(list(whole)) > len(found)
    assert list(SentenceFiles([path], tokenize=True, lines="wrapped")) == found


def test_sentences_have_their_text(tmp_path: Path):
    path = write(tmp_path, "  He can't.  She  can! \n")
    assert list(SentenceFiles([path], tokenize=True).texts()) == [
        ("He can't.", ["He", "ca", "n't", "."]),
        ("She  can!", ["She", "can", "!"]),
    ]
    assert list(SentenceFiles([path], as_is=True).texts()) == [
        ("  He can't.  She  can! ", ["He", "can't.", "She", "can!"])
    ]


# Long lines ---------------------------------------------------------------------------------------


def test_a_sentence_of_very_many_words_is_read_in_pieces(tmp_path: Path):
    path = write(tmp_path, "word " * 12_001 + "\nnext line\n")
    with pytest.warns(ElmoreWarning, match="more than 5,000 words is read in pieces"):
        found = list(SentenceFiles([path]))
    assert [len(words) for words in found] == [5000, 5000, 2001, 2]
    assert [len(words) for words in SentenceFiles([path], longest=None)] == [12_001, 2]


@pytest.mark.parametrize(("unit", "n_words"), [("It rained. ", 3), ("word ", 1)])
def test_a_very_long_line_is_read_in_bounded_memory(
    tmp_path: Path, unit: str, n_words: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sentence_files, "_LONGEST_LINE", 1 << 14)
    times = 1_000_000 // len(unit)
    path = write(tmp_path, unit * times)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = sum(len(words) for words in SentenceFiles([path], tokenize=n_words > 1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == n_words * times
    assert peak < 8_000_000  # the line itself, and not all of its words
