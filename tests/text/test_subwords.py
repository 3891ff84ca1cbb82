"""Byte pairs give every text back, are those of GPT-2's tokenizer, and are the same every time."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.errors import FormatError
from elmore.text.subwords import (
    MERGES,
    VOCAB_JSON,
    BytePairs,
    WholeWords,
    parse_subwords,
    read_subwords,
)
from elmore.text.vocabulary import Vocabulary
from tests.tiny_causal import LINES, tiny_pieces

pytest.importorskip("tokenizers")


def ids_of(subwords: BytePairs, line: str) -> list[int]:
    return [i for word in subwords.pieces(line.split()) for i in word]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@settings(max_examples=200, deadline=None)
def test_every_text_comes_back(text: str):
    subwords = tiny_pieces()
    assert subwords.text(ids_of(subwords, text)) == " ".join(text.split())


def test_words_by_themselves_are_the_text_as_a_whole():
    """The library, given whole lines, as GPT-2's tokenizer is."""
    subwords = tiny_pieces()
    for line in (*LINES, "don't stop, it's 3,000.5 years (or “so”)…"):
        assert subwords.tokenizer.encode(f" {line}").ids == ids_of(subwords, line)


def test_gpt2s_tokenizer_reads_the_files(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    subwords = tiny_pieces()
    for name, content in subwords.files().items():
        (tmp_path / name).write_bytes(content)
    theirs = transformers.GPT2Tokenizer(
        str(tmp_path / VOCAB_JSON), str(tmp_path / MERGES), unk_token="<s>", eos_token="</s>",
        bos_token="<s>",
    )  # fmt: skip
    for line in LINES:
        assert theirs.encode(f" {line}") == ids_of(subwords, line)


def test_the_first_pairs_are_the_most_frequent():
    found = BytePairs.trained({"aab": 3, "aac": 2}, 2 + 256 + 2)
    # " aab" and " aac": "aa" and "Ġa" occur five times each, and "aa" sorts first
    assert found.merges == [("a", "a"), ("Ġ", "aa")]
    assert found.vocabulary[-2:] == ("aa", "Ġaa")


def test_files_are_read_again(tmp_path: Path):
    for subwords in (tiny_pieces(), WholeWords(Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"]))):
        folder = tmp_path / type(subwords).__name__
        folder.mkdir()
        for name, content in subwords.files().items():
            (folder / name).write_bytes(content)
        again = read_subwords(folder)
        assert again.files() == subwords.files()
        assert again.pieces(["a", "xyz"]) == subwords.pieces(["a", "xyz"])


def test_whole_words():
    words = WholeWords(Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"]))
    assert words.pieces(["b", "c"]) == [(4,), (2,)]
    assert words.text([0, 3, 2, 4, 1]) == "a <UNK> b"
    assert words.unknown("c")
    assert not words.unknown("a")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (VOCAB_JSON, b"[]", "numbered from 0"),
        (VOCAB_JSON, b'{"a": 0}', "lacks '<s>'"),
        (VOCAB_JSON, b'{"a": "x"}', "numbered from 0"),
        (VOCAB_JSON, b"{", "cannot be read"),
        (MERGES, b"a b c\n", "not two pieces"),
        (MERGES, b"zz yy\n", "lacks 'zzyy'"),
        (MERGES, b"\xff\n", "cannot be read"),
    ],
)
def test_damaged_files_are_refused(name: str, content: bytes, said: str):
    files = {**tiny_pieces().files(), name: content}
    with pytest.raises(FormatError, match=said):
        parse_subwords(files, "here")


def test_a_vocabulary_with_a_hole_is_refused():
    files = tiny_pieces().files()
    ids = json.loads(files[VOCAB_JSON])
    ids["new"] = len(ids) + 5
    with pytest.raises(FormatError, match="numbered from 0"):
        parse_subwords({**files, VOCAB_JSON: json.dumps(ids).encode()})
