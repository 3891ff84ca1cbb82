"""Texts with one label each, as most collections have them: a label, a tab and the text on each
line, or CSV with a header that names `label` and one more column. The text is raw: its words are
found as in any other raw text.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from elmore.errors import InputError
from elmore.tasks.readers.lines import task_lines
from elmore.tasks.readers.trees import Phrase, Tree
from elmore.text.tokenize import words as words_of

_LABEL = "label"


def read_labeled_texts(path: Path) -> Iterator[Tree]:
    """As trees of one phrase, the whole text."""
    found = False
    for where, label, text in _csv_rows(path) if ".csv" in path.name else _tab_rows(path):
        words = tuple(words_of(text))
        if not label.strip() or not words:
            which = "text" if label.strip() else "label"
            raise InputError(f"{where}: the {which} is empty; complete the line or remove it.")
        found = True
        yield Tree(words, (Phrase(0, len(words), label.strip()),))
    if not found:
        raise InputError(f"{path}: no text found; expected a label, a tab and a text on each line.")


def _tab_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(task_lines(path), start=1):
        if not line.strip():
            continue
        label, tab, text = line.partition("\t")
        if not tab:
            raise InputError(
                f"{path}, line {number}: {line[:40]!r} has no tab; expected a label, a tab and the "
                "text, or a tree like (3 (2 It) (4 works))."
            )
        yield f"{path}, line {number}", label, text


def _csv_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    reader = csv.reader(task_lines(path), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if len(header) != 2 or _LABEL not in header:
            raise InputError(
                f"{path}, line 1: the columns are {', '.join(header)[:80]!r}; expected two, one of "
                f"them named {_LABEL}."
            )
        at = header.index(_LABEL)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if len(row) != 2:
                raise InputError(f"{where}: {len(row)} columns; expected 2.")
            yield where, row[at], row[1 - at]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not CSV ({error}).") from None
