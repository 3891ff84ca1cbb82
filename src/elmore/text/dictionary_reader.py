"""Words as rows of dictionary ids, the way ELMoForManyLangs spells them: Unicode characters between
two marks, and before them the id of the word if the model has word vectors.
"""

# C characters in a row
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError
from elmore.text.character_classes import character_class
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END, Speller
from elmore.text.vocabulary import text_lines

CHARACTERS, WORDS = "chars.txt", "words.txt"
IDEOGRAPHIC_SPACE = "\u3000"

_MARKS = {SENTENCE_BEGIN: "<bos>", SENTENCE_END: "<eos>"}
CHARACTER_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
WORD_MARKS = ("<bos>", "<eos>", "<oov>")


class DictionaryReader(Speller):
    """Reads words as rows of [word id,] character ids. An unlisted word is `<oov>`; an unlisted
    character is its class, if the dictionary has classes, else `<oov>`."""

    def __init__(
        self, characters: Mapping[str, int], words: Mapping[str, int] | None, max_characters: int
    ):
        _require(characters, CHARACTER_MARKS, "character")
        if words is not None:
            _require(words, WORD_MARKS, "word")
        self.characters, self.words, self.max_characters = characters, words, max_characters

    def spell(self, words: Sequence[str]) -> NDArray[np.int64]:
        first = 0 if self.words is None else 1
        pad = self.characters["<pad>"]
        rows = np.full((len(words), first + self.max_characters), pad, dtype=np.int64)
        for row, word in zip(rows, words, strict=True):
            known = _MARKS.get(word, word)
            known = known if known in _MARKS.values() else known[: self.max_characters - 2]
            if self.words is not None:
                row[0] = self.words.get(known, self.words["<oov>"])
            ids = self._ids(known)
            row[first : first + len(ids)] = ids
        return rows  # (n, C) or (n, 1 + C)

    def cuts(self, word: str) -> bool:
        return word not in _MARKS and len(word) > self.max_characters - 2

    def unreadable(self, word: str) -> bool:
        if self.words is not None and word in self.words:
            return False
        return word not in _MARKS and self.characters.keys().isdisjoint(word)

    def files(self) -> dict[str, bytes]:
        tables = {CHARACTERS: self.characters, WORDS: self.words}
        return {
            name: "".join(dictionary_lines(ids)).encode()
            for name, ids in tables.items()
            if ids is not None
        }

    def _ids(self, word: str) -> list[int]:
        """The original opens a word with `<eow>` and closes it with `<bow>`; models rely on it."""
        letters = [word] if word in _MARKS.values() else word
        ids = [self._id(letter) for letter in letters]
        return [self.characters["<eow>"], *ids, self.characters["<bow>"]]

    def _id(self, letter: str) -> int:
        known = self.characters.get(letter)
        if known is not None:
            return known
        return self.characters.get(character_class(letter), self.characters["<oov>"])


def read_dictionary(path: Path, n_rows: int) -> dict[str, int]:
    """`item<TAB>id` per line, each id a row of a table of `n_rows`."""
    ids: dict[str, int] = {}
    for number, line in enumerate(text_lines(path), start=1):
        # Stripping removes one item itself, the ideographic space: then one field is left.
        fields = line.strip().split("\t")
        if fields == [""]:
            continue
        if len(fields) > 2 or not fields[-1].isascii() or not fields[-1].isdigit():
            raise FormatError(
                f"{path}, line {number}: {line[:80]!r}; expected an item, a tab, an id."
            )
        if len(fields[-1]) > 10 or int(fields[-1]) >= n_rows:
            raise FormatError(
                f"{path}, line {number}: the id {fields[-1][:20]} is outside the model's table of "
                f"{n_rows:,} rows; expected the dictionary it was trained with."
            )
        ids[fields[0] if len(fields) == 2 else IDEOGRAPHIC_SPACE] = int(fields[-1])
    return ids


def dictionary_lines(ids: Mapping[str, int]) -> Iterator[str]:
    """What `read_dictionary` reads back."""
    return (f"{item}\t{i}\n" for item, i in ids.items())


def _require(ids: Mapping[str, int], marks: Sequence[str], kind: str) -> None:
    if missing := [mark for mark in marks if mark not in ids]:
        raise FormatError(
            f"The {kind} dictionary of {len(ids):,} items lacks {', '.join(missing)}; expected "
            "the one the model was trained with."
        )
