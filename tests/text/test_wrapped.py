"""Wrapped text is recognized and joined again; lines that are sentences or paragraphs stay."""

import lzma
import re
import textwrap

import pytest

from elmore.text.sentences import sentences
from elmore.text.wrapped import unwrap, wrap_width
from tests.shared import SHARED, needs

PARAGRAPHS = """\
The harbor lay still that morning, and the boats that had come in during the night were tied to
the wall, side by side. Nobody spoke. Mr. Darcy, who had slept badly, walked up and down the quay
with his hands behind his back and looked at the water as if it owed him something.

“You are early,” said the harbor master, whose name was Finch, and he lit his pipe with a hand that
shook a little. “The tide won't turn before nine.”

“I know,” said Darcy.

He turned away. The well-known bells of the church on the hill began to ring, and the gulls, which
had been quarreling over a fish, rose together and flew out to sea in a long white line that bent
and straightened and was gone.""".split("\n\n")
PARAGRAPHS = [paragraph.replace("\n", " ") for paragraph in PARAGRAPHS]


def wrapped(paragraphs: list[str], width: int, indent: str = "") -> list[str]:
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += textwrap.wrap(paragraph, width, initial_indent=indent, break_on_hyphens=False)
        lines += [] if indent else [""]
    return lines


def texts(lines: list[str], width: int) -> list[str]:
    return [paragraph.text for paragraph in unwrap(lines, width)]


@pytest.mark.parametrize("width", [45, 60, 72, 100])
@pytest.mark.parametrize("indent", ["", "   "])
def test_wrapped_paragraphs_are_found_again(width: int, indent: str):
    lines = wrapped(PARAGRAPHS * 4, width, indent)
    found = wrap_width(lines)
    assert found is not None
    assert width - 8 < found <= width
    assert texts(lines, found) == PARAGRAPHS * 4


@pytest.mark.parametrize(
    "lines",
    [
        PARAGRAPHS * 10,
        [line for paragraph in PARAGRAPHS * 10 for line in (paragraph, "")],
        [" ".join(t.text for t in tokens) for p in PARAGRAPHS * 10 for tokens in sentences(p)],
        ["Tyger Tyger, burning bright,", "In the forests of the night;", "What hand or eye"] * 20,
        ["stocks fall again", "what the budget means for you", "rain in the north and south"] * 20,
        ["apple", "bank", "harbor", "spring"] * 20,
        ["- a list of things", "- another thing, longer than that", "- a third"] * 20,
        ["他走了。", "港口很安静，没有人说话。", "船在早上来了。"] * 20,
        wrapped(PARAGRAPHS, 72)[:5],
        [],
    ],
)
def test_lines_that_are_whole_are_left_alone(lines: list[str]):
    assert wrap_width(lines) is None


def test_short_lines_stay_by_themselves_in_wrapped_text():
    lines = ["CHAPTER I", "In Chancery", "", *wrapped(PARAGRAPHS, 60)]
    assert texts(lines, 60)[:3] == ["CHAPTER I", "In Chancery", PARAGRAPHS[0]]


def test_hyphens_and_chinese_are_joined_without_a_space():
    assert texts(["a well-", "known man--", "he said"], 10) == ["a well-known man-- he said"]
    assert texts(["船在早上来了没有", "人在等他"], 8) == ["船在早上来了没有人在等他"]


def test_each_word_of_a_paragraph_is_on_its_line():
    lines = ["", "CHAPTER I", "", *wrapped(PARAGRAPHS, 60), ""]
    found = list(unwrap(lines, 60))
    assert len(found) == 1 + len(PARAGRAPHS)
    for paragraph in found:
        for place, word in [(m.start(), m.group()) for m in re.finditer(r"\S+", paragraph.text)]:
            assert word in lines[paragraph.line_at(place) - 1].split()


def test_a_text_without_paragraphs_is_not_held_in_memory():
    line = "word " * 14 + "and so on"
    assert max(map(len, texts([line] * 50_000, 79))) < 1_100_000
    ended = [line, line, "word " * 14 + "and ends."]
    assert max(map(len, texts(ended * 20_000, 79))) < 110_000


@needs("data", "lm")
@pytest.mark.parametrize("name", ["novels.test", "eltec.valid", "wiki.test"])
def test_real_books_are_read_as_their_paragraphs_are(name: str):
    with lzma.open(SHARED / "data" / "lm" / f"{name}.txt.xz", "rt", encoding="utf-8") as file:
        paragraphs = [" ".join(line.split()) for line in file]
    paragraphs = [paragraph for paragraph in paragraphs if paragraph][:1500]
    assert wrap_width(paragraphs) is None
    if name == "wiki.test":  # one sentence per line
        paragraphs = [" ".join(paragraphs[i : i + 6]) for i in range(0, len(paragraphs), 6)]
    lines = wrapped(paragraphs, 72)
    width = wrap_width(lines[:1000])
    assert width == 72
    same = sum(a == b for a, b in zip(texts(lines, width), paragraphs, strict=True))
    assert same >= 0.999 * len(paragraphs)
