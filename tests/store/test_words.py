"""Packed words come back, and no two sentences share their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.store.words import Keys, pack, packed_sentence, packed_sentences, unpack
from tests.tiny_models import SENTENCES

TRICKY = st.lists(st.text(alphabet="a\n\\n\x00 \ud800é", max_size=4), max_size=4)


@given(TRICKY)
def test_packed_words_come_back(words: list[str]):
    assert unpack(pack(words)) == words


@given(TRICKY, TRICKY)
def test_different_sentences_pack_differently(one: list[str], other: list[str]):
    assert (pack(one) == pack(other)) == (one == other)


def test_odd_words_come_back():
    for words in SENTENCES:
        assert unpack(pack(words)) == words


def test_no_word_and_an_empty_word_are_different():
    assert len({pack([]), pack([""]), pack(["", ""])}) == 3


def test_a_key_depends_on_the_model():
    packed = pack(["a", "bank"])
    assert Keys("one").of(packed) != Keys("other").of(packed)
    assert Keys("one").of(packed) == Keys("one").of(packed)


def test_a_string_is_tokenised_and_keeps_its_spans():
    read = packed_sentence("Don't go.")
    assert read.words == ["Do", "n't", "go", "."]
    assert read.spans is not None
    assert ["Don't go."[a:b] for a, b in read.spans] == read.words


@pytest.mark.parametrize("wrong", [["a", 1], 7, b"a"])
def test_what_is_no_sentence_is_refused(wrong: object):
    with pytest.raises(InputError, match="expected a string"):
        packed_sentence(wrong)  # type: ignore[arg-type]


def test_a_complaint_says_which_sentence():
    with pytest.raises(InputError, match="Sentence 2, word 1 is a int"):
        list(packed_sentences([["a"], "b c", ["d", 1]]))
