"""Which uses of a corpus are indexed: those of the chosen words, up to a limit per word, spread
evenly over the corpus.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmore.embedding import Sentence
from elmore.errors import ConfigError, InputError
from elmore.files.passages import Passage, passages
from elmore.files.sentence_files import SentenceFiles
from elmore.search.checked_files import WholeFile, damaged
from elmore.search.manifest import Manifest
from elmore.search.origins import TextPlace, encoded
from elmore.store.words import pack, packed_sentences

WORDS = "words.txt"  # the list
COUNTS = "counts.bin"  # how often each occurs in the corpus
LONGEST = 1000
"""Words in a sentence."""
WordChoice = int | Sequence[str] | None


def choose_words(counts: Mapping[str, int], words: WordChoice) -> dict[str, int]:
    """The words to index and their counts: all, the most frequent, or a given list."""
    match words:
        case None:
            return dict(counts)
        case str() | bool():
            raise ConfigError(f"words is {words!r}; expected a number, a list of words or None.")
        case int():
            if words < 1:
                raise ConfigError(f"words is {words}; expected 1 or more.")
            ordered = sorted(counts, key=lambda word: (-counts[word], word))
            return {word: counts[word] for word in ordered[:words]}
        case _:
            chosen = {word: counts[word] for word in words if counts.get(word)}
            if not chosen:
                raise InputError("None of the words asked for occurs in the corpus.")
            return chosen


class Piece(NamedTuple):
    """A sentence as it is indexed."""

    words: list[str]
    packed: bytes
    place: TextPlace | None
    """Where it stands, for text files and strings."""


def pieces(sentences: Iterable[Sentence]) -> Iterator[Piece]:
    """The sentences as they are indexed: a very long one is cut, because memory is limited."""
    for words, packed, place in _placed(sentences):
        if len(words) <= LONGEST:
            yield Piece(words, packed, place)
            continue
        for begin in range(0, len(words), LONGEST):
            part = words[begin : begin + LONGEST]
            yield Piece(part, pack(part), place and place._replace(begin=0, end=0))


def _placed(sentences: Iterable[Sentence]) -> Iterator[Piece]:
    match sentences:
        case SentenceFiles():
            for passage in passages(sentences):
                yield from _of_passage(passage)
        case _:
            for read in packed_sentences(sentences):
                place = None if read.text is None else _of_string(read.text)
                yield Piece(read.words, read.packed, place)


def _of_passage(passage: Passage) -> Iterator[Piece]:
    text = encoded(passage.text)
    at = place = 0  # the end of the sentence before, in characters and in bytes
    for words, line, start, end in passage.sentences:
        begin = place + len(encoded(passage.text[at:start]))
        at, place = end, begin + len(encoded(passage.text[start:end]))
        yield Piece(words, pack(words), TextPlace(passage.file, line, text, begin, place))


def _of_string(text: str) -> TextPlace:
    whole = encoded(text)
    return TextPlace("", 0, whole, 0, len(whole))


class UsePlan:
    """Chooses uses, sentence by sentence; the same corpus gives the same uses."""

    def __init__(self, counts: Mapping[str, int], max_uses: int):
        self.counts, self.max_uses = counts, max_uses
        self._seen: dict[str, int] = {}

    def positions(self, words: Sequence[str]) -> list[int]:
        """The uses to keep of the next sentence of the corpus."""
        return [position for position, word in enumerate(words) if self._keeps(word)]

    def _keeps(self, word: str) -> bool:
        """Of a word that occurs n times, every n / max_uses-th use."""
        n = self.counts.get(word)
        if n is None:
            return False
        if n <= self.max_uses:
            return True
        before = self._seen.get(word, 0)
        self._seen[word] = before + 1
        return (before + 1) * self.max_uses // n > before * self.max_uses // n


class ListedWords:
    """The listed words and how often they occur in the corpus, read when they are needed."""

    def __init__(self, folder: Path, manifest: Manifest):
        self._words = WholeFile(folder / WORDS, manifest.files.get(WORDS))
        self._counts = WholeFile(folder / COUNTS, manifest.files.get(COUNTS))

    def counts(self) -> dict[str, int]:
        words = self._words.words()
        counts = self._counts.numbers(np.int64, len(words))
        if counts.min(initial=1) < 1:
            raise damaged(self._counts.path, "a word does not occur")
        return dict(zip(words, counts.tolist(), strict=True))
