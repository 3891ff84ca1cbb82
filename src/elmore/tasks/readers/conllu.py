"""CoNLL-U, the format of Universal Dependencies: syntactic words and their parts of speech.
Ranges (`3-4`, a word as it is written) and empty nodes (`3.1`) are not words.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.readers.columns import Row, TaggedSentence, sentences

ConlluColumn = Literal["upos", "xpos", "deprel"]

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_EMPTY = "_"
_NUMBER = re.compile(r"[0-9]{1,9}([-.][0-9]{1,9})?")


def read_conllu(path: Path, column: ConlluColumn = "upos") -> Iterator[TaggedSentence]:
    """Sentences with the tags of one column."""
    return sentences(_rows(path, column), path, "CoNLL-U, ten columns per word")


def _rows(path: Path, column: ConlluColumn) -> Iterator[Row | None]:
    expected = 1
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            expected = 1
            yield None
        elif not line.startswith("#"):
            where = f"{path}, line {number}"
            fields = _fields(line, where)
            if not fields[0].isdigit():  # a range or an empty node
                continue
            if int(fields[0]) != expected:
                raise InputError(
                    f"{where}: word {fields[0]} where word {expected} should be; words count from "
                    "1, and a blank line ends a sentence."
                )
            expected += 1
            tag = fields[_COLUMNS.index(column)]
            if tag == _EMPTY:
                raise InputError(
                    f"{where}: the word has no {column} (its column is empty, '_'); expected one "
                    "for every word. Another column is chosen with task.layout.tag."
                )
            yield number, fields[1], tag


def _fields(line: str, where: str) -> list[str]:
    fields = line.split("\t")
    if len(fields) != len(_COLUMNS):
        raise InputError(
            f"{where}: {len(fields)} columns ({line[:40]!r}); CoNLL-U has {len(_COLUMNS)}, split "
            "by tabs."
        )
    if not _NUMBER.fullmatch(fields[0]):
        raise InputError(f"{where}: {fields[0]!r} is no word number; expected 1, 1-2 or 1.1.")
    if not fields[1].strip():
        raise InputError(f"{where}: the word itself is empty; expected its form.")
    return fields
