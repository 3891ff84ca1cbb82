"""Texts with a label each: a table with columns split by tabs or, in a file called .csv, by commas,
or JSON objects. Texts are tokenized, which does not change text that is tokenized already.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elmore.errors import InputError
from elmore.tasks.corpus import Words
from elmore.tasks.readers.lines import parse_json, placed_lines, task_lines
from elmore.text.tokenize import words

TEXTS = ("text", "sentence", "review", "document", "content", "question")
LABELS = ("label", "class", "sentiment", "category", "stars")
EXPECTED = f"a text ({', '.join(TEXTS)}) and a label ({', '.join(LABELS)})"
_CSV = ".csv"


class LabeledText(NamedTuple):
    """The words of a text, and its label."""

    words: Words
    label: str


def read_labeled_texts(path: Path) -> tuple[list[LabeledText], tuple[str, ...]]:
    """The texts of a file in order, and notes. Texts without words are counted and left out."""
    found, empty = [], 0
    for where, text, label in _rows(path):
        if not isinstance(label, str | int) or isinstance(label, bool) or not str(label).strip():
            raise InputError(f"{where}: the label is {label!r}; expected a name or a number.")
        if not isinstance(text, str):
            raise InputError(f"{where}: the text is a {type(text).__name__}; expected a string.")
        read = tuple(words(text))
        found += [LabeledText(read, str(label).strip())] if read else []
        empty += not read
    if not found:
        raise InputError(f"{path}: no text found; expected {EXPECTED} on each line.")
    return found, ((f"texts left out, as they have no words: {empty:,}",) if empty else ())


_Row = tuple[str, Any, Any]  # the place, the text and the label


def _rows(path: Path) -> Iterator[_Row]:
    if _CSV in path.suffixes:
        yield from _table(_commas(path), path)
        return
    first = next(placed_lines(path), None)
    if first is not None and first[1].lstrip().startswith("{"):
        for where, line in placed_lines(path):
            yield _from_json(parse_json(line, where), where)
        return
    cells = ((where, line.split("\t")) for where, line in placed_lines(path))
    yield from _table(cells, path)


def _commas(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Cells in quotes may have commas and ends of lines in them."""
    reader = csv.reader(line + "\n" for line in task_lines(path))
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield f"{path}, line {reader.line_num}", cells
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not CSV ({error}).") from None


def _table(lines: Iterator[tuple[str, list[str]]], path: Path) -> Iterator[_Row]:
    """The first line may name the columns; else they are text and label."""
    text, label, n = 0, 1, 2
    for i, (where, cells) in enumerate(lines):
        names = [cell.strip().lower() for cell in cells]
        if i == 0 and (named := _columns(names)) is not None:
            (text, label), n = named, len(names)
            continue
        if len(cells) != n:
            raise InputError(
                f"{where}: {len(cells)} columns; expected {n}: {EXPECTED}, or a first line that "
                "names the columns."
            )
        yield where, cells[text], cells[label]


def _columns(names: list[str]) -> tuple[int, int] | None:
    """Where text and label are; None if the line names nothing."""
    text = next((names.index(name) for name in TEXTS if name in names), None)
    label = next((names.index(name) for name in LABELS if name in names), None)
    return None if text is None or label is None else (text, label)


def _from_json(found: Any, where: str) -> _Row:
    if not isinstance(found, dict):
        raise InputError(f"{where}: a JSON {type(found).__name__}; expected an object.")
    text = next((found[name] for name in TEXTS if name in found), None)
    label = next((found[name] for name in LABELS if name in found), None)
    if text is None or label is None:
        raise InputError(f"{where}: has {sorted(found)[:9]}; expected {EXPECTED}.")
    return where, text, label
