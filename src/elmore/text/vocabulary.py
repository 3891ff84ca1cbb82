"""The words a model can predict, or read if it has a table of words, one id each.
They are in order of decreasing frequency after the three marks: the log-uniform sampler needs it.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from elmore.errors import FormatError
from elmore.small_files import open_small
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END, IntArray, Speller

VOCABULARY, VOCABULARY_GZ = "vocab.txt", "vocab.txt.gz"
UNKNOWN = "<UNK>"
MARKS = (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN)

_MAX_BYTES, _MAX_LINES = 1 << 28, 1 << 23
_NOT_A_WORD = "!!!MAXTERMID"  # a bookkeeping line in old vocabulary files
_ALLENNLP_UNKNOWN = "@@UNKNOWN@@"


class Vocabulary:
    """Words and their ids; an unlisted word has the id of `<UNK>`."""

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        self.ids = {word: i for i, word in enumerate(self.words)}
        if len(self.ids) != len(self.words):
            raise FormatError(f"Vocabulary: {_first_repeat(self.words)}; list each word once.")
        missing = [mark for mark in MARKS if mark not in self.ids]
        if missing:
            raise FormatError(
                f"Vocabulary of {len(self.words)} words lacks {', '.join(missing)}; "
                f"a vocabulary starts with {' '.join(MARKS)}, one word per line."
            )
        self.begin, self.end, self.unknown = (self.ids[mark] for mark in MARKS)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.ids

    def id(self, word: str) -> int:
        return self.ids.get(word, self.unknown)

    @classmethod
    def from_counts(
        cls, counts: dict[str, int], *, min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """The most frequent words; ties are in alphabetical order, to be deterministic."""
        kept = [w for w, n in counts.items() if n >= min_count and w not in MARKS]
        kept.sort(key=lambda word: (-counts[word], word))
        room = None if max_size is None else max(0, max_size - len(MARKS))
        return cls([*MARKS, *kept[:room]])

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """One word per line. AllenNLP's `tokens.txt` is read too (`@@UNKNOWN@@` first)."""
        words = [word for word in text_lines(path) if word and word != _NOT_A_WORD]
        if _ALLENNLP_UNKNOWN in words[:2]:
            words = [UNKNOWN if word == _ALLENNLP_UNKNOWN else word for word in words]
        try:
            return cls(words)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None

    def lines(self) -> Iterator[str]:
        return (word + "\n" for word in self.words)


class WordReader(Speller):
    """Reads words as rows of one place, their id."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary

    def spell(self, words: Sequence[str]) -> IntArray:
        ids = [self.vocabulary.id(word) for word in words]
        return np.array(ids, dtype=np.int64).reshape(-1, 1)  # (n, 1)

    def cuts(self, word: str) -> bool:
        return False

    def unreadable(self, word: str) -> bool:
        return word not in self.vocabulary

    def files(self) -> dict[str, bytes]:
        return {VOCABULARY: "".join(self.vocabulary.lines()).encode()}


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a model's UTF-8 text file, plain or .gz, without line ends."""
    number, left = 1, _MAX_BYTES
    try:
        with open_small(path, _MAX_BYTES) as file:
            packed = path.suffix == ".gz"
            lines = cast(IO[bytes], gzip.GzipFile(fileobj=file) if packed else file)
            for number, line in enumerate(_bounded(lines, _MAX_BYTES), start=1):
                left -= len(line)
                if number > _MAX_LINES or left < 0:
                    raise FormatError(
                        f"{path}: over {_MAX_LINES:,} lines or {_MAX_BYTES >> 20} MiB; expected "
                        "one line per word."
                    )
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}, line {number}: damaged ({error}); copy it again.") from None
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}, line {number}: not UTF-8 ({error.reason}); save it as UTF-8."
        ) from None


def _bounded(file: IO[bytes], most: int) -> Iterator[bytes]:
    """Lines, none longer than `most` bytes: compressed data may claim one of any length."""
    while line := file.readline(most):
        yield line


def _first_repeat(words: Iterable[str]) -> str:
    seen: dict[str, int] = {}
    for i, word in enumerate(words, start=1):
        if seen.setdefault(word, i) != i:
            return f"{word!r} is both word {seen[word]:,} and word {i:,}"
    raise AssertionError("no word is repeated")
