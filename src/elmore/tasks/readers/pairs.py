"""Two sentences and a label, a line each: tab-separated with or without a line of names, or JSON
objects, under the names the published sets use. Sentences are tokenised, which leaves text that is
tokenised already as it is; pairs whose annotators did not agree are counted and left out.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from elmore.errors import InputError
from elmore.tasks.task import Corpus, Words
from elmore.text.corpus import read_lines
from elmore.text.tokenize import words

# What the two sentences are called, then what the label may be called.
NAMES = (
    ("premise", "hypothesis", "label", "gold_label"),
    ("sentence1", "sentence2", "gold_label", "label"),  # SNLI and MultiNLI; GLUE
    ("sentence_A", "sentence_B", "entailment_judgment", "entailment_label"),  # SICK
)
UNDECIDED = frozenset(["-", "-1"])
EXPECTED = "premise, hypothesis and label"


@dataclass(frozen=True, slots=True)
class Pair:
    """Does the hypothesis follow from the premise? The label says; None where it is asked."""

    premise: Words
    hypothesis: Words
    label: str | None = None


class _Row(NamedTuple):
    place: str
    premise: str
    hypothesis: str
    label: str | None


def read_pairs(path: Path, *, labelled: bool = True) -> Corpus[Pair]:
    """The pairs of a file in order; without `labelled` no label is asked for nor looked at."""
    pairs: list[Pair] = []
    n_undecided = 0
    for row in _rows(path, labelled):
        if row.label in UNDECIDED:
            n_undecided += 1
        else:
            premise = _words(row.premise, "premise", row.place)
            hypothesis = _words(row.hypothesis, "hypothesis", row.place)
            pairs.append(Pair(premise, hypothesis, row.label))
    if not pairs:
        found = (
            f"only pairs without an agreed label ({n_undecided:,})" if n_undecided else "no pair"
        )
        raise InputError(f"{path}: {found} found; expected {EXPECTED} on each line.")
    note = f"pairs left out, as their annotators did not agree on a label: {n_undecided:,}"
    return Corpus(pairs, (note,) if n_undecided else ())


def _words(text: str, which: str, place: str) -> Words:
    found = tuple(words(text))
    if not found:
        raise InputError(f"{place}: the {which} has no words; mend or drop the line.")
    return found


def _rows(path: Path, labelled: bool) -> Iterator[_Row]:
    lines = ((n, line) for n, line in enumerate(read_lines(path), start=1) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    if first[1].lstrip().startswith("{"):
        for number, line in chain([first], lines):
            yield _from_json(line, f"{path}, line {number}", labelled)
        return
    names = [cell.strip() for cell in first[1].split("\t")]
    columns = _columns(names, f"{path}, line {first[0]}", labelled)
    for number, line in lines if columns else chain([first], lines):
        yield _from_cells(line.split("\t"), columns, f"{path}, line {number}", labelled)


def _columns(names: list[str], place: str, labelled: bool) -> tuple[int, ...] | None:
    """Where a line of names puts sentences and label; None if the line names nothing."""
    for premise, hypothesis, *labels in NAMES:
        if premise in names and hypothesis in names:
            found = [names.index(label) for label in labels if label in names]
            if labelled and not found:
                raise InputError(f"{place}: no column {' or '.join(labels)} among {names}.")
            return names.index(premise), names.index(hypothesis), *found[:1]
    return None


def _from_cells(
    cells: list[str], columns: tuple[int, ...] | None, place: str, labelled: bool
) -> _Row:
    if columns is None:
        if len(cells) != 3 and (labelled or len(cells) != 2):
            raise InputError(
                f"{place}: {len(cells)} columns; expected 3, split by tabs: {EXPECTED}, or a first "
                "line that names more."
            )
        columns = (0, 1, 2)
    elif len(cells) <= max(columns):
        raise InputError(f"{place}: {len(cells)} columns; expected {max(columns) + 1} or more.")
    premise, hypothesis = (cells[i] for i in columns[:2])
    label = _label(cells[columns[2]].strip(), place) if labelled else None
    return _Row(place, premise, hypothesis, label)


def _from_json(line: str, place: str, labelled: bool) -> _Row:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}); expected one object a line.") from None
    if not isinstance(found, dict):
        raise InputError(f"{place}: a JSON {type(found).__name__}; expected an object.")
    for premise, hypothesis, *labels in NAMES:
        if isinstance(found.get(premise), str) and isinstance(found.get(hypothesis), str):
            given = next((found[name] for name in labels if name in found), None)
            label = _label(given, place) if labelled else None
            return _Row(place, found[premise], found[hypothesis], label)
    names = " or ".join(f"{premise} and {hypothesis}" for premise, hypothesis, *_ in NAMES)
    raise InputError(f"{place}: no two sentences among {sorted(found)[:9]}; expected {names}.")


def _label(given: Any, place: str) -> str:
    if isinstance(given, str | int) and str(given) and not isinstance(given, bool):
        return str(given)
    raise InputError(f"{place}: the label is {given!r}; expected a name or a number.")
