"""CoNLL-U, the format of Universal Dependencies: syntactic words and their parts of speech.
Ranges (`3-4`, a word as it is written) and empty nodes (`3.1`) are not words.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.readers.columns import TaggedSentence

ConlluColumn = Literal["upos", "xpos", "deprel"]

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_EMPTY = "_"
_NUMBER = re.compile(r"[0-9]{1,9}([-.][0-9]{1,9})?")


def read_conllu(path: Path, column: ConlluColumn = "upos") -> Iterator[TaggedSentence]:
    """Sentences with the tags of one column."""
    words: list[str] = []
    tags: list[str] = []
    first, found = 0, False
    at = _COLUMNS.index(column)
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            if words:
                yield TaggedSentence(tuple(words), tuple(tags), first)
            words, tags = [], []
        elif not line.startswith("#"):
            fields = _fields(line, path, number)
            if fields[0].isdigit():
                _check_order(fields[0], len(words) + 1, path, number)
                first, found = first if words else number, True
                words.append(fields[1])
                tags.append(_tag(fields[at], path, number, column))
    if words:
        yield TaggedSentence(tuple(words), tuple(tags), first)
    if not found:
        raise InputError(f"{path}: no sentence found; expected CoNLL-U, ten columns per word.")


def _tag(field: str, path: Path, number: int, column: ConlluColumn) -> str:
    if field == _EMPTY:
        raise InputError(
            f"{path}, line {number}: the word has no {column} (its column is empty, '_'); expected "
            "one for every word. Another column is chosen with task.layout.tag."
        )
    return field


def _fields(line: str, path: Path, number: int) -> list[str]:
    fields = line.split("\t")
    if len(fields) != len(_COLUMNS):
        raise InputError(
            f"{path}, line {number}: {len(fields)} columns ({line[:40]!r}); CoNLL-U has "
            f"{len(_COLUMNS)}, split by tabs."
        )
    if not _NUMBER.fullmatch(fields[0]):
        raise InputError(
            f"{path}, line {number}: {fields[0]!r} is no word number; expected 1, 1-2 or 1.1."
        )
    if not fields[1].strip():
        raise InputError(f"{path}, line {number}: the word itself is empty; expected its form.")
    return fields


def _check_order(found: str, expected: int, path: Path, number: int) -> None:
    if int(found) != expected:
        raise InputError(
            f"{path}, line {number}: word {found} where word {expected} should be; words count "
            "from 1, and a blank line ends a sentence."
        )
