"""Word-in-Context: a word in two sentences, does it mean the same? From two layouts: `X.data.txt`
with words between spaces and T or F in `X.gold.txt` beside it (WiC), or JSON lines with raw
sentences, the places of their words in characters, and the answer as `tag` (MCL-WiC).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.tasks.readers.lines import parse_json, placed_lines, task_lines
from elmore.tasks.readers.senses import gold_beside
from elmore.text.tokenize import words as words_of
from elmore.uses.use import Use

DATA, GOLD, JSON_LINES = ".data.txt", ".gold.txt", ".jsonl"
_FIELDS = ("lemma", "pos", "sentence1", "sentence2", "start1", "end1", "start2", "end2", "tag")


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
    """The pairs of a file; its name says in which layout."""
    return _read_json(path) if JSON_LINES in Path(path).name else _read_columns(path)


def _read_columns(path: str | Path) -> Iterator[UsePair]:
    gold = gold_beside(path, DATA, GOLD)
    both = zip_longest(task_lines(path), task_lines(gold))
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
    if not (found := re.fullmatch(r"(\d{1,9})-(\d{1,9})", places)):
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


def _read_json(path: str | Path) -> Iterator[UsePair]:
    for where, line in placed_lines(path):
        row = parse_json(line, where)
        if not isinstance(row, dict) or not all(isinstance(row.get(f), str) for f in _FIELDS):
            raise InputError(
                f"{where}: expected a JSON object with the texts {', '.join(_FIELDS)}."
            )
        if row["tag"] not in ("T", "F"):
            raise InputError(f"{where}: the tag is {row['tag'][:20]!r}; expected T or F.")
        first, second = (_placed_use(row, n, where) for n in "12")
        yield UsePair(row["lemma"], row["pos"], first, second, row["tag"] == "T")


def _placed_use(row: dict[str, Any], n: str, where: str) -> Use:
    """The word stays whole and by itself, whatever a tokenizer would make of it and its neighbors:
    the data say where it begins and ends."""
    text, start, end = row[f"sentence{n}"], row[f"start{n}"], row[f"end{n}"]
    numbers = all(re.fullmatch(r"[0-9]{1,9}", place) for place in (start, end))
    word = text[int(start) : int(end)] if numbers else ""
    if not word.strip():
        raise InputError(
            f"{where}: places {start[:20]!r} to {end[:20]!r} of sentence{n} hold no word; expected "
            "two numbers within its characters."
        )
    before, after = words_of(text[: int(start)]), words_of(text[int(end) :])
    return Use((*before, word, *after), len(before))
