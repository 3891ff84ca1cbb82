"""What a model cannot read: which words, how many of them, and one warning."""

import warnings
from pathlib import Path

import pytest

from elmore import Embedder
from elmore.cli.main import main
from elmore.errors import ElmoreWarning
from elmore.text.byte_reader import ByteReader
from elmore.text.dictionary_reader import DictionaryReader
from elmore.text.unreadable import find_unreadable
from elmore.text.vocabulary import MARKS, Vocabulary, WordReader
from tests.checkpoint.foreign_models import CHAR_DIC, WORD_DIC

WORDS = {word: i for word, i in WORD_DIC.items() if "今" not in word}


def test_each_reader_knows_what_it_cannot_read():
    letters = DictionaryReader({k: v for k, v in CHAR_DIC.items() if k != "今"}, WORDS, 10)
    assert [letters.unreadable(w) for w in ("river", "今", "t今", "今今", "<S>")] == [
        *(False, True, False, True, False),
    ]
    words = WordReader(Vocabulary([*MARKS, "river"]))
    assert [words.unreadable(word) for word in ("river", "bank", "<S>")] == [False, True, False]
    assert not any(map(ByteReader().unreadable, ("river", "今", "\ud800", "")))


def test_a_word_that_the_table_lists_is_readable_without_its_letters():
    characters = {mark: i for i, mark in enumerate(CHAR_DIC) if len(mark) > 1}
    assert not DictionaryReader(characters, {**WORD_DIC, "今天": 9}, 10).unreadable("今天")


def test_the_share_counts_every_use():
    reader = WordReader(Vocabulary([*MARKS, "a", "b"]))
    assert find_unreadable(reader, [["a", "b", "a", "b", "x"] * 4, ["a"]]) is None
    found = find_unreadable(reader, [["x", "a", "x"], ["y", "z"]])
    assert found is not None
    assert (found.words, found.of, found.examples) == (4, 5, ("x", "y", "z"))
    assert "80% of the words (x, y, z)" in str(found)
    assert find_unreadable(reader, []) is None
    assert find_unreadable(reader, [[]]) is None


def test_an_embedder_warns_once():
    embedder = Embedder.load("small-en", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.embed(["We sat on the bank — naïve as ever .", "No 苹果 here , they said ."])
    with pytest.warns(ElmoreWarning, match=r"small-en cannot read 100% of .* \(苹果, 银行\)"):
        embedder.embed([["苹果", "银行"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.embed([["苹果", "银行"]])
    with pytest.warns(ElmoreWarning), Embedder.load("small-en", device="cpu").stateful() as run:
        run.embed([["苹果", "银行"]])


def test_the_command_line_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = tmp_path / "text.txt"
    text.write_text("苹果 银行\n" * 3, encoding="utf-8")
    command = ["embed", str(text), str(tmp_path / "x.npz"), "--quiet", "--model", "small-en"]
    assert main(command) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("elmore: warning: small-en cannot read 100% of the words (苹果, 银行)")
