"""CoNLL's columns: one word per line, its labels beside it, a blank line between sentences."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.task import Words

DOCUMENT = "-DOCSTART-"

Row = tuple[int, str, str]  # a word's line, the word and its tag


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words, one tag for each, and the line of the first word."""

    words: Words
    tags: tuple[str, ...]
    line: int


def read_columns(path: Path, word: int = 0, tag: int = -1) -> Iterator[TaggedSentence]:
    """Columns are split by white space and count from 0, or from the end if negative. Lines that
    mark a new document are left out."""
    return sentences(_rows(path, word, tag), path, "one word and its tag per line")


def sentences(rows: Iterable[Row | None], path: Path, expected: str) -> Iterator[TaggedSentence]:
    """Rows are joined to sentences; None ends one."""
    found = False
    current: list[Row] = []
    for row in chain(rows, [None]):
        if row is not None:
            current.append(row)
        elif current:
            lines, words, tags = zip(*current, strict=True)
            yield TaggedSentence(words, tags, lines[0])
            current, found = [], True
    if not found:
        raise InputError(f"{path}: no sentence found; expected {expected}.")


def _rows(path: Path, word: int, tag: int) -> Iterator[Row | None]:
    width = 0
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}, line {number}"
        if "\r" in line:
            raise InputError(
                f"{where}: a carriage return inside the line; expected lines that end with a line "
                "feed."
            )
        fields = line.split()
        if not fields or fields[0] == DOCUMENT:
            yield None
            continue
        width = width or _width(fields, word, tag, where)
        if len(fields) != width:
            raise InputError(
                f"{where}: {len(fields)} columns ({line[:40]!r}), but the first word has {width}; "
                "every word needs as many."
            )
        yield number, fields[word], fields[tag]


def _width(fields: list[str], word: int, tag: int, where: str) -> int:
    """The number of columns, from the first line; both columns must exist and differ."""
    width = len(fields)
    columns = {column + width if column < 0 else column for column in (word, tag)}
    if len(columns) < 2 or not columns <= set(range(width)):
        raise InputError(
            f"{where}: {width} columns ({' '.join(fields)[:40]!r}); expected words in column "
            f"{word} and tags in column {tag}."
        )
    return width
