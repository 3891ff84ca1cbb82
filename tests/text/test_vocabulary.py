"""Vocabularies as they are found in the wild: one word a line, and nothing else assumed."""

from pathlib import Path

import pytest

from elmore.errors import FormatError
from elmore.text.vocabulary import Vocabulary, WordReader

MARKS = ["<S>", "</S>", "<UNK>"]


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def complaint(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        Vocabulary.read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_ids_are_line_numbers_and_strangers_are_unknown(tmp_path: Path):
    vocabulary = Vocabulary.read(write(tmp_path, "<S>\n</S>\n<UNK>\nthe\nbank\n"))
    assert [vocabulary.id(w) for w in ("<S>", "</S>", "<UNK>", "the", "bank", "Bank")] == [
        0, 1, 2, 3, 4, 2,
    ]  # fmt: skip
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (0, 1, 2)
    assert len(vocabulary) == 5
    assert "bank" in vocabulary
    assert "Bank" not in vocabulary
    reader = WordReader(vocabulary)
    assert reader.spell(["bank", "Bank"]).tolist() == [[4], [2]]
    assert reader.spell([]).shape == (0, 1)


def test_marks_may_stand_anywhere(tmp_path: Path):
    vocabulary = Vocabulary.read(write(tmp_path, "<UNK>\nthe\n</S>\n<S>\n"))
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (3, 2, 0)


def test_a_bookkeeping_line_is_no_word(tmp_path: Path):
    vocabulary = Vocabulary.read(write(tmp_path, "<S>\n</S>\n<UNK>\n!!!MAXTERMID\nthe\n"))
    assert vocabulary.words == [*MARKS, "the"]


def test_allennlps_unknown_is_ours(tmp_path: Path):
    vocabulary = Vocabulary.read(write(tmp_path, "@@UNKNOWN@@\n<S>\n</S>\nthe\n"))
    assert vocabulary.unknown == 0
    assert vocabulary.id("stranger") == 0
    assert vocabulary.id("the") == 3


@pytest.mark.parametrize("space", ["\u3000", "\u2028", "\u2029", "\xa0", "\x85", "\x0b", "\x1c"])
def test_words_of_strange_space_are_kept(tmp_path: Path, space: str):
    words = [*MARKS, space, f"a{space}b", f" {space}", f"{space}x"]
    path = write(tmp_path, "".join(word + "\n" for word in words))
    assert Vocabulary.read(path).words == words
    assert "".join(Vocabulary(words).lines()) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "content",
    [
        b"<S>\r\n</S>\r\n<UNK>\r\nthe\r\n",
        b"<S>\n</S>\n<UNK>\nthe",
        b"\xef\xbb\xbf<S>\n</S>\n<UNK>\nthe\n",
        b"<S>\n</S>\n<UNK>\nthe\n\n\n",
    ],
)
def test_line_ends_marks_of_order_and_blank_ends_are_no_words(tmp_path: Path, content: bytes):
    assert Vocabulary.read(write(tmp_path, content)).words == [*MARKS, "the"]


def test_a_word_listed_twice(tmp_path: Path):
    message = complaint(write(tmp_path, "<S>\n</S>\n<UNK>\nthe\nbank\nthe\n"))
    assert "'the' is both word 4 and word 6" in message


def test_missing_marks(tmp_path: Path):
    message = complaint(write(tmp_path, "<S>\nthe\n"))
    assert "2 words lacks </S>, <UNK>" in message
    assert "starts with <S> </S> <UNK>" in message


def test_an_empty_vocabulary(tmp_path: Path):
    assert "0 words lacks <S>, </S>, <UNK>" in complaint(write(tmp_path, ""))


def test_a_line_that_is_not_utf8(tmp_path: Path):
    assert "line 4: not UTF-8" in complaint(write(tmp_path, b"<S>\n</S>\n<UNK>\nna\xefve\n"))


def test_a_file_that_is_not_there(tmp_path: Path):
    assert "cannot be read" in complaint(tmp_path / "no.txt")
    assert "cannot be read" in complaint(tmp_path)


def test_counts_make_one_vocabulary():
    counts = {"b": 3, "a": 3, "c": 5, "rare": 1, "<S>": 99, "<UNK>": 2}
    assert Vocabulary.from_counts(counts).words == [*MARKS, "c", "a", "b", "rare"]
    assert Vocabulary.from_counts(counts, min_count=2).words == [*MARKS, "c", "a", "b"]
    assert Vocabulary.from_counts(counts, max_size=5).words == [*MARKS, "c", "a"]
    assert Vocabulary.from_counts(counts, max_size=1).words == MARKS
    backwards = dict(reversed(counts.items()))
    assert Vocabulary.from_counts(backwards).words == [*MARKS, "c", "a", "b", "rare"]
