"""Words as rows of byte ids, against the oracle's, for any string Python can hold."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmore.errors import ConfigError
from elmore.text.byte_reader import N_CHARACTER_IDS, ByteReader
from tests.oracle.lstm_elmo import char_ids

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates and controls too


@settings(max_examples=300, deadline=None)
@given(st.lists(ANY_TEXT, max_size=4), st.integers(3, 80))
@example(["", " ", "\x00", "\r\n", "<S>", "</S>", "<UNK>", "<s>"], 50)
@example(["\ud800", "a\udfffb", "\ud83d\ude00", "😀", "👩‍🔬" * 9, "naïve", "東京都"], 10)
@example(["é" * 24, "é" * 25, "x" + "é" * 24, "x" * 47, "x" * 48, "x" * 49], 50)
@example(["x" * 10_000, "東" * 10_000, "\u200f" * 3], 50)
def test_any_word_is_spelled_as_the_oracle_spells_it(words: list[str], max_characters: int):
    rows = ByteReader(max_characters).spell(words)
    assert rows.shape == (len(words), max_characters)
    assert rows.dtype == np.int64
    for word, row in zip(words, rows.tolist(), strict=True):
        assert row == char_ids(word, max_characters)
    assert ((rows > 0) & (rows < N_CHARACTER_IDS)).all()


def test_a_word_by_hand():
    """Begin 258, bytes, end 259, padding 260; then one more on each."""
    assert ByteReader(6).spell(["cat", "<S>", "é"]).tolist() == [
        [259, 100, 98, 117, 260, 261],
        [259, 257, 260, 261, 261, 261],
        [259, 196, 170, 260, 261, 261],
    ]


def test_a_long_word_is_cut_in_bytes_even_inside_a_character():
    assert ByteReader(5).spell(["aéé"]).tolist() == [[259, 98, 196, 170, 260]]
    assert ByteReader(4).spell(["aé"]).tolist() == [[259, 98, 196, 260]]


def test_a_word_is_cut_when_its_bytes_do_not_fit_between_the_marks():
    speller = ByteReader(10)
    assert not speller.cuts("x" * 8)
    assert speller.cuts("x" * 9)
    assert speller.cuts("é" * 5)


@pytest.mark.parametrize("max_characters", [2, 0, -1])
def test_too_few_places_for_any_word(max_characters: int):
    with pytest.raises(ConfigError, match=f"max_characters is {max_characters}: .* at least 3"):
        ByteReader(max_characters)
