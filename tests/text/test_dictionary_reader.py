"""Spelling by dictionaries, against the oracle's rows, and the dictionaries' files."""

from pathlib import Path

import pytest

from elmore.errors import FormatError
from elmore.text.dictionary_reader import DictionaryReader, dictionary_lines, read_dictionary
from tests.checkpoint.foreign_models import CHAR_DIC, WORD_DIC
from tests.oracle import manylangs

WORDS = ["the", "river", "今", "今天", "\u3000", "q", "", "t" * 48, "t" * 49, "<bos>", "\ud800"]


def test_rows_are_the_oracles():
    rows = DictionaryReader(CHAR_DIC, None, 50).spell(WORDS)
    assert rows.tolist() == [manylangs.char_ids(word, CHAR_DIC) for word in WORDS]


def test_the_words_own_id_stands_in_front():
    rows = DictionaryReader(CHAR_DIC, WORD_DIC, 10).spell(["river", "riverbed", "<S>", "</S>"])
    assert rows.shape == (4, 11)
    assert rows[:, 0].tolist() == [WORD_DIC[w] for w in ("river", "<oov>", "<bos>", "<eos>")]
    assert rows[2, 1:].tolist() == manylangs.char_ids("<bos>", CHAR_DIC, 10)


def test_begin_and_end_of_a_word_are_swapped_as_in_the_original():
    row = DictionaryReader(CHAR_DIC, None, 10).spell(["t"])[0]
    assert row[:3].tolist() == [CHAR_DIC["<eow>"], CHAR_DIC["t"], CHAR_DIC["<bow>"]]


def test_a_word_is_cut_by_its_characters_not_by_its_bytes():
    speller = DictionaryReader(CHAR_DIC, None, max_characters=10)
    assert not speller.cuts("ж" * 8)
    assert speller.cuts("ж" * 9)


def test_the_ideographic_space_is_read_where_stripping_hides_it(tmp_path: Path):
    path = tmp_path / "char.dic"
    path.write_bytes("\ufeffa\t0\r\n\u3000\t1\n\nb\t2".encode())
    assert read_dictionary(path, 3) == {"a": 0, "\u3000": 1, "b": 2}
    assert manylangs.read_dic(path).keys() >= {"\u3000", "b"}


def test_what_is_written_is_read_back(tmp_path: Path):
    path = tmp_path / "chars.txt"
    path.write_bytes("".join(dictionary_lines(CHAR_DIC)).encode())
    assert read_dictionary(path, len(CHAR_DIC)) == CHAR_DIC


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\tb\t1\n", "line 1: 'a.tb.t1'; expected an item, a tab, an id"),
        (b"a\t0\nb\tx\n", "line 2"),
        (b"a\t3\n", "the id 3 is outside the model's table of 3 rows"),
        ("a\t٣\n".encode(), "expected an item"),
        (b"\xff\t0\n", "not UTF-8"),
    ],
)
def test_a_damaged_dictionary_says_where(tmp_path: Path, content: bytes, expected: str):
    path = tmp_path / "char.dic"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=expected):
        read_dictionary(path, 3)


def test_missing_marks_are_named():
    with pytest.raises(FormatError, match="lacks <eow>"):
        DictionaryReader({k: v for k, v in CHAR_DIC.items() if k != "<eow>"}, None, 50)
