"""CoNLL-U, the format of Universal Dependencies: syntactic words and their parts of speech.
Ranges (`3-4`, a word as it is written) and empty nodes (`3.1`) are not words.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from elmore.errors import InputError
from elmore.tasks.readers.columns import TaggedSentence
from elmore.text.corpus import read_lines

ConlluColumn = Literal["upos", "xpos", "deprel"]

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


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
                first, found = first if words else number, True
                words.append(fields[1])
                tags.append(fields[at])
    if words:
        yield TaggedSentence(tuple(words), tuple(tags), first)
    if not found:
        raise InputError(f"{path}: no sentence found; expected CoNLL-U, ten columns a word.")


def _fields(line: str, path: Path, number: int) -> list[str]:
    fields = line.split("\t")
    if len(fields) != len(_COLUMNS):
        raise InputError(
            f"{path}, line {number}: {len(fields)} columns ({line[:40]!r}); CoNLL-U has "
            f"{len(_COLUMNS)}, split by tabs."
        )
    if not fields[0].replace("-", "").replace(".", "").isdigit():
        raise InputError(
            f"{path}, line {number}: {fields[0]!r} is no word number; expected 1, 1-2 or 1.1."
        )
    return fields
