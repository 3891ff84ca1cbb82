"""CoNLL's columns: one word per line, its labels beside it, a blank line between sentences."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.task import Words

DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words and one tag each, and the line of the first."""

    words: Words
    tags: tuple[str, ...]
    line: int


def read_columns(path: Path, word: int = 0, tag: int = -1) -> Iterator[TaggedSentence]:
    """Columns are split by white space and count from 0, or from the end if negative. Lines that
    mark a new document are left out."""
    rows: list[list[str]] = []
    first = width = 0
    for number, line in enumerate(read_lines(path), start=1):
        if "\r" in line:
            raise InputError(
                f"{path}, line {number}: a carriage return inside the line; expected lines that "
                "end with a line feed."
            )
        fields = line.split()
        if not fields or fields[0] == DOCUMENT:
            yield from _sentence(rows, word, tag, first)
            rows = []
            continue
        width = width or _width(fields, word, tag, path, number)
        if len(fields) != width:
            raise InputError(
                f"{path}, line {number}: {len(fields)} columns ({line[:40]!r}), but the first "
                f"word has {width}; every word needs as many."
            )
        first = first if rows else number
        rows.append(fields)
    yield from _sentence(rows, word, tag, first)
    if not width:
        raise InputError(f"{path}: no sentence found; expected one word and its tag per line.")


def _width(fields: list[str], word: int, tag: int, path: Path, number: int) -> int:
    """Of the first line; it must have both columns, and two different ones."""
    width = len(fields)
    columns = {column + width if column < 0 else column for column in (word, tag)}
    if len(columns) < 2 or not columns <= set(range(width)):
        raise InputError(
            f"{path}, line {number}: {width} columns ({' '.join(fields)[:40]!r}); expected words "
            f"in column {word} and tags in column {tag}."
        )
    return width


def _sentence(rows: list[list[str]], word: int, tag: int, line: int) -> Iterator[TaggedSentence]:
    if rows:
        words, tags = tuple(row[word] for row in rows), tuple(row[tag] for row in rows)
        yield TaggedSentence(words, tags, line)
