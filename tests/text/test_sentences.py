"""Sentences of a paragraph: a table of where they end, and the laws that hold for any text."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.text.sentences import sentences
from elmore.text.tokenize import tokenize

# Each is a paragraph; a bar stands where a sentence ends and another begins.
CASES = [
    "It rained.| We left.",
    "Stop!| Why?| Well…| No… but so be it... and so on.",
    '"Why?" he asked.| "No!" she said.',
    '"Go home."| He went.',
    "“Go home.”| “Never!”| (He meant it.)| So.",
    "‘Oh dear!’ (when she thought it over) was all.",
    "He met Mr. J. R. Smith of the U.S. Army on Jan. 5.| Then he left.",
    "He lives in the U.S.| The law is odd there.",
    "It opens at 5 p.m.| He waits.",
    "It opens at 5 p.m. Eastern time.",
    "So did I.| Mary left.",
    "See No. 5.| It costs 3.50 at least.",
    "What?!| Really?| Yes!!!",
    "He left. . . .| So it goes.",
    '"Stop!"--and he ran.| "Stop!", he said.',
    "Is it Yahoo! or not?",
    "In the U.S.?| Never there.",
    "_No!_| He left.",
    "No mark at the end",
    "¿Qué tal?| ¡Hola!| Adiós.",
    "यह है।| वह था।",
    "テレビ。| ラジオ！| 「あ。」| い",
    "",
]
CHINESE = "他说：“你好。”|然后走了。|真的吗？！|是。"


def check(marked: str) -> None:
    parts = marked.split("|")
    text = "".join(parts)
    expected = [[token.text for token in tokenize(part)] for part in parts if part]
    assert [[token.text for token in sentence] for sentence in sentences(text)] == expected


@pytest.mark.parametrize("marked", CASES)
def test_ends_sentences_where_a_reader_would(marked: str) -> None:
    check(marked)


def test_ends_chinese_sentences() -> None:
    pytest.importorskip("jieba")
    check(CHINESE)


@settings(max_examples=300, deadline=None)
@given(st.text("aB. !?…'\"’”()-\nU中。", max_size=40) | st.text(st.characters(), max_size=40))
def test_sentences_are_the_tokens_cut_into_pieces(text: str) -> None:
    pytest.importorskip("jieba", reason="random text has Chinese characters")
    parts = sentences(text)
    assert all(parts)
    assert [token for part in parts for token in part] == tokenize(text)


@pytest.mark.parametrize("unit", [".", ".(", ". (", ".'", "U.S. ", "! a ", "'.", "etc. "])
def test_time_is_linear_on_hostile_text(unit: str) -> None:
    began = time.process_time()
    sentences(unit * (100_000 // len(unit)))
    assert time.process_time() - began < 8  # measured: 0.3 at most
