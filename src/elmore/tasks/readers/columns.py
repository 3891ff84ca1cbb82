"""One word per line, its labels beside it in columns, and a blank line between sentences: CoNLL's
columns, and CoNLL-U, the format of Universal Dependencies.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from elmore.errors import InputError
from elmore.tasks.corpus import Words
from elmore.tasks.readers.lines import task_lines
from elmore.text.word_tables import CONLLU_NUMBER, is_conllu_row

DOCUMENT = "-DOCSTART-"
ConlluColumn = Literal["upos", "xpos", "deprel"]

_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_EMPTY = "_"
_COMMENT = re.compile(r"# ?\w+ = ")
_PLACED = re.compile(r".[0-9]", re.DOTALL)

_Row = tuple[int, str, str]  # a word's line, the word and its tag


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words, one tag for each, and the line of the first word."""

    words: Words
    tags: tuple[str, ...]
    line: int


def read_columns(path: Path, word: int = 0, tag: int = -1) -> Iterator[TaggedSentence]:
    """Columns are split by white space and count from 0, or from the end if negative. Lines that
    mark a new document are left out. Where every word is one character with its place in a longer
    word behind it (`科0`, `技1`: the files of Weibo NER), the places are left out too."""
    rows = _without_places(_column_rows(path, word, tag))
    return _sentences(rows, path, "one word and its tag per line")


def read_conllu(path: Path, column: ConlluColumn = "upos") -> Iterator[TaggedSentence]:
    """Syntactic words with the tags of one column. Ranges (`3-4`, a word as it is written) and
    empty nodes (`3.1`) are not words."""
    return _sentences(_conllu_rows(path, column), path, "CoNLL-U, ten columns per word")


def _sentences(rows: Iterable[_Row | None], path: Path, expected: str) -> Iterator[TaggedSentence]:
    """Rows are joined to sentences; None ends one."""
    found = False
    current: list[_Row] = []
    for row in chain(rows, [None]):
        if row is not None:
            current.append(row)
        elif current:
            lines, words, tags = zip(*current, strict=True)
            yield TaggedSentence(words, tags, lines[0])
            current, found = [], True
    if not found:
        raise InputError(f"{path}: no sentence found; expected {expected}.")


def _column_rows(path: Path, word: int, tag: int) -> Iterator[_Row | None]:
    width = 0
    for number, line in enumerate(task_lines(path), start=1):
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
        if not width and _is_conllu(line):
            raise InputError(
                f"{where}: this is CoNLL-U, and columns were expected. Its tags are read with the "
                "task pos, or with --set task.layout.kind=conllu --set task.layout.tag=upos (or "
                "xpos, deprel)."
            )
        width = width or _width(fields, word, tag, where)
        if len(fields) != width:
            raise InputError(
                f"{where}: {len(fields)} columns ({line[:40]!r}), but the first word has {width}; "
                "every word needs as many."
            )
        yield number, fields[word], fields[tag]


def _is_conllu(line: str) -> bool:
    return is_conllu_row(line) or _COMMENT.match(line) is not None


def _without_places(rows: Iterable[_Row | None]) -> Iterator[_Row | None]:
    """The first sentence decides for the file."""
    source, first = iter(rows), list[_Row]()
    for row in source:
        if row is None and first:
            break
        if row is not None:
            first.append(row)
    words = [word for _, word, _ in first]
    placed = len(words) > 2 and all(_PLACED.fullmatch(word) for word in words)
    placed = placed and any("\u3400" <= word[0] <= "\u9fff" for word in words)
    for row in chain(first, [None], source):
        if row is not None and placed and _PLACED.fullmatch(row[1]):
            row = (row[0], row[1][:-1], row[2])
        yield row


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


def _conllu_rows(path: Path, column: ConlluColumn) -> Iterator[_Row | None]:
    expected = 1
    for number, line in enumerate(task_lines(path), start=1):
        if not line.strip():
            expected = 1
            yield None
        elif not line.startswith("#"):
            where = f"{path}, line {number}"
            fields = _conllu_fields(line, where)
            if not fields[0].isdigit():  # a range or an empty node
                continue
            if int(fields[0]) != expected:
                raise InputError(
                    f"{where}: word {fields[0]} where word {expected} should be; words count from "
                    "1, and a blank line ends a sentence."
                )
            expected += 1
            tag = fields[_CONLLU.index(column)]
            if tag == _EMPTY:
                raise InputError(
                    f"{where}: the word has no {column} (its column is empty, '_'); expected one "
                    "for every word. Another column is chosen with task.layout.tag."
                )
            yield number, fields[1], tag


def _conllu_fields(line: str, where: str) -> list[str]:
    fields = line.split("\t")
    if len(fields) != len(_CONLLU):
        raise InputError(
            f"{where}: {len(fields)} columns ({line[:40]!r}); CoNLL-U has {len(_CONLLU)}, split "
            "by tabs."
        )
    if not CONLLU_NUMBER.fullmatch(fields[0]):
        raise InputError(f"{where}: {fields[0]!r} is no word number; expected 1, 1-2 or 1.1.")
    if not fields[1].strip():
        raise InputError(f"{where}: the word itself is empty; expected its form.")
    return fields
