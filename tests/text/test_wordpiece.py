"""WordPiece gives the ids of `transformers`' fast tokenizer, and takes every string."""

import builtins
import itertools
import json
import lzma
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.errors import ConfigError, FormatError
from elmore.text.wordpiece import AddedPiece, WordPiece, WordPieceConfig
from tests.oracle.bert import longest_pieces
from tests.shared import SHARED, needs
from tests.tiny_bert import VOCABULARY, tiny_wordpiece

WORDPIECE = SHARED / "fixtures" / "wordpiece"
NAMES = ("small-uncased", "small-cased", "wp8k-uncased", "wp8k-cased")


def fixture(name: str) -> WordPiece:
    text = (WORDPIECE / f"{name}.vocab.txt").read_text(encoding="utf-8")
    return WordPiece(text.splitlines(), WordPieceConfig(lowercase=name.endswith("uncased")))


def golden(name: str, kind: str) -> Iterator[dict[str, Any]]:
    with lzma.open(WORDPIECE / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        yield from (record for record in map(json.loads, file) if record["kind"] == kind)


@needs("fixtures", "wordpiece")
@pytest.mark.parametrize("name", NAMES)
def test_texts_have_the_pieces_ids_and_word_ids_of_the_goldens(name: str):
    found, lines = fixture(name), json.loads((WORDPIECE / "lines.json").read_text("utf-8"))
    for record in golden(name, "text"):
        text = lines[record["i"]]
        encoded = found.tokenizer.encode(text if isinstance(text, str) else text["text"])
        assert encoded.ids == record["ids"]
        assert encoded.tokens == record["pieces"]
        assert encoded.word_ids == record["word_ids"]
        assert [list(span) for span in encoded.offsets] == record["offsets"]


@needs("fixtures", "wordpiece")
@pytest.mark.parametrize("name", NAMES)
def test_words_have_the_pieces_of_the_goldens(name: str):
    """A word that has none there is unknown here."""
    found, lists = fixture(name), json.loads((WORDPIECE / "words.json").read_text("utf-8"))
    vanished = 0
    for record in golden(name, "words"):
        words = lists[record["i"]]
        words = words if isinstance(words, list) else words["words"]
        wanted = by_word(record["ids"], record["word_ids"], len(words))
        vanished += sum(not one for one in wanted)
        assert found.pieces(words) == [one or (found.unknown,) for one in wanted]
    assert vanished > 10


def corpus() -> dict[str, Iterator[str]]:
    """Lines of four languages."""

    def lines(*parts: str) -> Iterator[str]:
        with lzma.open(SHARED.joinpath("data", *parts), "rt", encoding="utf-8") as file:
            yield from (line.rstrip("\n") for line in file if line.strip())

    return {
        "en": lines("lm", "wiki.train.txt.xz"),
        "de": lines("mt", "multi30k", "train.de.xz"),
        "fr": lines("mt", "multi30k", "train.fr.xz"),
        "zh": lines("zh", "lm", "wiki.train.txt.xz"),
    }


def compare_with_transformers(name: str, n_lines: int) -> None:
    """The same ids for `n_lines` of each language, as text and as words."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    found = fixture(name)
    theirs = transformers.BertTokenizerFast(
        vocab=str(WORDPIECE / f"{name}.vocab.txt"), do_lower_case=found.config.lowercase
    )
    for language, lines in corpus().items():
        read = list(itertools.islice(lines, n_lines))
        assert len(read) == n_lines, language
        expected = theirs(read)["input_ids"]
        assert [one.ids for one in found.tokenizer.encode_batch(read)] == expected
        split = [line.split() for line in read]
        expected = theirs(split, is_split_into_words=True, add_special_tokens=False)
        for i, words in enumerate(split):
            wanted = by_word(expected["input_ids"][i], expected.word_ids(i), len(words))
            assert found.pieces(words) == [one or (found.unknown,) for one in wanted], words


def by_word(ids: list[int], word_ids: list[int | None], n_words: int) -> list[tuple[int, ...]]:
    pieces: list[tuple[int, ...]] = [()] * n_words
    for i, word in zip(ids, word_ids, strict=True):
        if word is not None:
            pieces[word] += (i,)
    return pieces


@needs("data", "zh", "lm", "wiki.train.txt.xz")
@pytest.mark.parametrize("name", ["wp8k-uncased", "wp8k-cased"])
def test_lines_of_four_languages_have_the_ids_of_transformers(name: str):
    compare_with_transformers(name, 500)


@pytest.mark.slow
@needs("data", "zh", "lm", "wiki.train.txt.xz")
@pytest.mark.parametrize("name", ["wp8k-uncased", "wp8k-cased"])
def test_100_000_lines_have_the_ids_of_transformers(name: str):
    compare_with_transformers(name, 25_000)


@given(st.text(alphabet="thebankriv", min_size=1, max_size=12))
def test_pieces_are_greedy_and_longest_first(word: str):
    found = tiny_wordpiece()
    (pieces,) = found.pieces([word])
    assert [VOCABULARY[i] for i in pieces] == longest_pieces(word, VOCABULARY)


ANY = st.text(st.characters(exclude_categories=[]), max_size=20)


@given(st.lists(ANY, max_size=6), st.booleans())
@settings(max_examples=200)
def test_every_string_is_read_and_each_word_by_itself(words: list[str], lowercase: bool):
    found = tiny_wordpiece(lowercase)
    pieces = found.pieces(words)
    assert len(pieces) == len(words)
    assert all(one and max(one) < len(VOCABULARY) for one in pieces)
    fresh = tiny_wordpiece(lowercase)
    assert [fresh.pieces([word])[0] for word in reversed(words)] == pieces[::-1]


@pytest.mark.parametrize(
    "word", ["", " ", "\u200b", "\u0301", "\ud800", "\udfff\ud800", "\x00\x07"]
)
def test_a_word_without_pieces_is_unknown(word: str):
    found = tiny_wordpiece()
    assert found.pieces([word]) == [(found.unknown,)]


def test_surrogates_that_make_a_character_are_that_character():
    emoji = WordPiece([*VOCABULARY, "😀"], WordPieceConfig(lowercase=True))
    assert emoji.pieces(["\ud83d\ude00", "😀"]) == [(len(VOCABULARY),)] * 2


def test_marks_in_words_are_marks():
    found = tiny_wordpiece()
    assert found.pieces(["[MASK]", "[SEP]"]) == [(found.mask,), (found.end,)]
    assert len(found.pieces(["[mask]"])[0]) > 1


def test_added_pieces_are_found_in_words():
    added = [AddedPiece(id=len(VOCABULARY), content="<new>", special=False)]
    found = WordPiece(VOCABULARY, WordPieceConfig(lowercase=True), added)
    assert found.pieces(["<new>", "[MASK]"]) == [(len(VOCABULARY),), (found.mask,)]


def test_a_word_too_long_is_unknown():
    found = tiny_wordpiece()
    assert found.pieces(["a" * 100, "a" * 101])[1] == (found.unknown,)
    assert len(found.pieces(["a" * 100])[0]) == 100


def test_a_copy_has_the_same_pieces():
    found = tiny_wordpiece()
    words = ["river", "grassy", "東京"]
    assert pickle.loads(pickle.dumps(found)).pieces(words) == found.pieces(words)


def test_a_vocabulary_without_marks_is_refused():
    with pytest.raises(FormatError, match=r"lacks \[MASK\]"):
        WordPiece([piece for piece in VOCABULARY if piece != "[MASK]"], tiny_wordpiece().config)


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "tokenizers", raising=False)
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "tokenizers":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"pip install 'elmore\[bert\]'"):
        tiny_wordpiece().pieces(["the"])


@needs("fixtures", "wordpiece")
def test_the_files_are_read_back_by_transformers(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for name in NAMES:
        found, folder = fixture(name), tmp_path / name
        folder.mkdir()
        for file, content in found.files(64).items():
            (folder / file).write_bytes(content)
        theirs = transformers.BertTokenizerFast.from_pretrained(folder)
        assert theirs.model_max_length == 64
        for text in ("Ünder the café, [MASK] 東京 x", "a" * 120, "don't"):
            assert theirs(text)["input_ids"] == found.tokenizer.encode(text).ids
