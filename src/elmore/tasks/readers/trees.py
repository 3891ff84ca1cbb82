"""Stanford Sentiment Treebank: one tree in brackets per line, a label on every phrase:
(3 (2 It) (4 (2 's) (4 lovely))). The escapes of the Penn Treebank are undone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmore.errors import InputError
from elmore.tasks.corpus import Words
from elmore.tasks.readers.lines import placed_lines

_MAX_CHARACTERS = 1 << 18  # of a line; the longest of the treebank has 700
_TOKEN = re.compile(r"\(|\)|[^\s()]+")
_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
}  # fmt: skip


class Phrase(NamedTuple):
    """Words start … end - 1 have this label."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A sentence and its phrases, innermost first; the last is the sentence itself."""

    words: Words
    phrases: tuple[Phrase, ...]


def is_trees(path: Path) -> bool:
    """Whether the first line that is not blank opens a bracket; an empty file counts as trees."""
    return next((line for _, line in placed_lines(path)), "(").lstrip().startswith("(")


def read_trees(path: Path) -> Iterator[Tree]:
    """One per line; blank lines are skipped."""
    found = False
    for where, line in placed_lines(path):
        found = True
        yield _tree(line, where)
    if not found:
        raise InputError(f"{path}: no tree found; expected one per line like (3 (2 It) (4 works)).")


def _tree(line: str, where: str) -> Tree:
    """Brackets are matched by a stack: a tree may be as deep as its line is long."""
    if len(line) > _MAX_CHARACTERS:
        raise InputError(
            f"{where}: {len(line):,} characters in one tree; expected at most {_MAX_CHARACTERS:,}, "
            "one sentence per line."
        )
    broken = InputError(
        f"{where}: {line[:40]!r} is not a tree; expected brackets that match, each with a label "
        "and words or phrases, as in (3 (2 It) (4 works))."
    )
    words: list[str] = []
    phrases: list[Phrase] = []
    open_phrases: list[tuple[int, str]] = []
    tokens = _TOKEN.findall(line)
    for i, token in enumerate(tokens):
        if token == "(":
            label = tokens[i + 1] if i + 1 < len(tokens) else ")"
            if label in "()" or (phrases and not open_phrases):
                raise broken
            open_phrases.append((len(words), label))
        elif not open_phrases:
            raise broken
        elif token == ")":
            start, label = open_phrases.pop()
            if start == len(words):
                raise broken
            phrases.append(Phrase(start, len(words), label))
        elif tokens[i - 1] != "(":  # after a bracket it is the label
            words.append(_ESCAPES.get(token, token).replace("\\/", "/").replace("\\*", "*"))
    if open_phrases or not phrases:
        raise broken
    return Tree(tuple(words), tuple(phrases))
