"""Two sentences and a label per line: tab-separated with or without a line of names, or JSON
objects, under the names the published sets use. Sentences are tokenized, which does not change text
that is tokenized already; pairs whose annotators did not agree are counted and left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.tasks.corpus import Corpus, Words
from elmore.tasks.readers.lines import parse_json, placed_lines
from elmore.text.tokenize import words

# What the two sentences are called, then what the label may be called.
NAMES = (
    ("premise", "hypothesis", "label", "gold_label"),
    ("sentence1", "sentence2", "gold_label", "label"),  # SNLI and MultiNLI; GLUE
    ("sentence_A", "sentence_B", "entailment_judgment", "entailment_label"),  # SICK
)
LABELS = frozenset(label for _, _, *labels in NAMES for label in labels)
UNDECIDED = frozenset(["-", "-1"])
EXPECTED = "premise, hypothesis and label"


@dataclass(frozen=True, slots=True)
class Pair:
    """Whether the hypothesis follows from the premise; None where that is to be predicted."""

    premise: Words
    hypothesis: Words
    label: str | None = None


_Row = tuple[str, str, Any]  # premise, hypothesis and label as they stand in the file


def read_pairs(path: Path, *, labeled: bool = True) -> Corpus[Pair]:
    """The pairs of a file in order; without `labeled` labels are neither needed nor read."""
    pairs: list[Pair] = []
    n_undecided = 0
    for where, (premise, hypothesis, given) in _rows(path, labeled):
        label = _label(given, where) if labeled else None
        if label in UNDECIDED:
            n_undecided += 1
        else:
            first = _words(premise, "premise", where)
            pairs.append(Pair(first, _words(hypothesis, "hypothesis", where), label))
    if not pairs:
        only = f"only pairs without an agreed label ({n_undecided:,})"
        found = only if n_undecided else "no pair"
        raise InputError(f"{path}: {found} found; expected {EXPECTED} on each line.")
    note = f"pairs left out, as their annotators did not agree on a label: {n_undecided:,}"
    return Corpus(pairs, (note,) if n_undecided else ())


def _words(text: str, which: str, where: str) -> Words:
    found = tuple(words(text))
    if not found:
        raise InputError(f"{where}: the {which} has no words; correct or remove the line.")
    return found


def _rows(path: Path, labeled: bool) -> Iterator[tuple[str, _Row]]:
    """Each with its place in the file."""
    lines = placed_lines(path)
    first = next(lines, None)
    if first is None:
        return
    where, line = first
    if line.lstrip().startswith("{"):
        for where, line in chain([first], lines):
            yield where, _from_json(parse_json(line, where), where)
        return
    columns = _columns([cell.strip() for cell in line.split("\t")], where, labeled)
    for where, line in lines if columns else chain([first], lines):
        yield where, _from_cells(line.split("\t"), columns, where, labeled)


def _columns(names: list[str], where: str, labeled: bool) -> tuple[int, ...] | None:
    """Where a line of names puts sentences and label; None if the line names nothing."""
    plain = [name.lower() for name in names]
    for premise, hypothesis, *labels in NAMES:
        if premise.lower() in plain and hypothesis.lower() in plain:
            found = [plain.index(label) for label in labels if label in plain]
            if labeled and not found:
                raise InputError(f"{where}: no column {' or '.join(labels)} among {names}.")
            return plain.index(premise.lower()), plain.index(hypothesis.lower()), *found[:1]
    if plain[-1] in LABELS:
        known = "; ".join(f"{premise}, {hypothesis}" for premise, hypothesis, *_ in NAMES)
        raise InputError(
            f"{where}: names of columns ({', '.join(names)[:60]}), but not of two sentences; "
            f"expected {known}, or no line of names."
        )
    return None


def _from_cells(
    cells: list[str], columns: tuple[int, ...] | None, where: str, labeled: bool
) -> _Row:
    if columns is None:
        if len(cells) != 3 and (labeled or len(cells) != 2):
            raise InputError(
                f"{where}: {len(cells)} columns; expected 3, split by tabs: {EXPECTED}, or a first "
                "line that names more."
            )
        columns = (0, 1, 2)
    elif len(cells) <= max(columns):
        raise InputError(f"{where}: {len(cells)} columns; expected {max(columns) + 1} or more.")
    label = cells[columns[2]].strip() if labeled else None
    return cells[columns[0]], cells[columns[1]], label


def _from_json(found: Any, where: str) -> _Row:
    if not isinstance(found, dict):
        raise InputError(f"{where}: a JSON {type(found).__name__}; expected an object.")
    for premise, hypothesis, *labels in NAMES:
        if isinstance(found.get(premise), str) and isinstance(found.get(hypothesis), str):
            label = next((found[name] for name in labels if name in found), None)
            return found[premise], found[hypothesis], label
    names = " or ".join(f"{premise} and {hypothesis}" for premise, hypothesis, *_ in NAMES)
    raise InputError(f"{where}: no two sentences among {sorted(found)[:9]}; expected {names}.")


def _label(given: Any, where: str) -> str:
    if isinstance(given, str | int) and str(given) and not isinstance(given, bool):
        return str(given)
    raise InputError(f"{where}: the label is {given!r}; expected a name or a number.")
