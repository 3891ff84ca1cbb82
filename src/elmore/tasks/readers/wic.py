"""Word-in-Context: a word in two sentences, and whether it means the same. One pair per line in
`X.data.txt` (word, part of speech, the two places as 2-6, both sentences), T or F in `X.gold.txt`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.readers.lines import gold_beside
from elmore.uses.use import Use

DATA, GOLD = ".data.txt", ".gold.txt"


@dataclass(frozen=True, slots=True)
class UsePair:
    """Two uses of a word."""

    word: str
    pos: str
    first: Use
    second: Use
    same: bool
    """Whether both are of one sense."""


def read_wic(path: str | Path) -> Iterator[UsePair]:
    """The pairs of a `.data.txt` file, with the answers of the file beside it."""
    gold = gold_beside(path, DATA, GOLD)
    both = zip_longest(read_lines(path), read_lines(gold))
    for number, (line, label) in enumerate(both, start=1):
        if line is None or label is None:
            longer, shorter = (gold, path) if line is None else (path, gold)
            raise InputError(
                f"{longer}, line {number}: {shorter} ends before it; expected as many lines."
            )
        if label not in ("T", "F"):
            raise InputError(f"{gold}, line {number}: found {label!r}; expected T or F.")
        yield _pair(line, label == "T", f"{path}, line {number}")


def _pair(line: str, same: bool, where: str) -> UsePair:
    columns = line.split("\t")
    if len(columns) != 5:
        raise InputError(
            f"{where}: {len(columns)} columns between tabs; expected 5 "
            "(word, part of speech, places, two sentences)."
        )
    word, pos, places, *texts = columns
    if not (found := re.fullmatch(r"(\d+)-(\d+)", places)):
        raise InputError(f"{where}: the places are {places!r}; expected two numbers like 2-6.")
    first, second = (
        _use(text, int(at), where) for text, at in zip(texts, found.groups(), strict=True)
    )
    return UsePair(word, pos, first, second, same)


def _use(text: str, place: int, where: str) -> Use:
    words = tuple(text.split())
    if place >= len(words):
        raise InputError(
            f"{where}: word {place} is asked for, counted from 0, in a sentence of {len(words)}."
        )
    return Use(words, place)
