"""Two sentences and a label per line: tab-separated with or without a line of names, or JSON
objects, under the names the published sets use. Sentences are tokenized, which does not change text
that is tokenized already; pairs whose annotators did not agree are counted and left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.readers.json_text import parse_json
from elmore.tasks.task import Corpus, Words
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


class _Row(NamedTuple):
    place: str
    premise: str
    hypothesis: str
    label: str | None


def read_pairs(path: Path, *, labeled: bool = True) -> Corpus[Pair]:
    """The pairs of a file in order; without `labeled` labels are neither needed nor read."""
    pairs: list[Pair] = []
    n_undecided = 0
    for row in _rows(path, labeled):
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
        raise InputError(f"{place}: the {which} has no words; correct or remove the line.")
    return found


def _rows(path: Path, labeled: bool) -> Iterator[_Row]:
    lines = ((n, line) for n, line in enumerate(read_lines(path), start=1) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    if first[1].lstrip().startswith("{"):
        for number, line in chain([first], lines):
            yield _from_json(parse_json(line, path, number), f"{path}, line {number}", labeled)
        return
    names = [cell.strip() for cell in first[1].split("\t")]
    columns = _columns(names, f"{path}, line {first[0]}", labeled)
    for number, line in lines if columns else chain([first], lines):
        yield _from_cells(line.split("\t"), columns, f"{path}, line {number}", labeled)


def _columns(names: list[str], place: str, labeled: bool) -> tuple[int, ...] | None:
    """Where a line of names puts sentences and label; None if the line names nothing."""
    plain = [name.lower() for name in names]
    for premise, hypothesis, *labels in NAMES:
        if premise.lower() in plain and hypothesis.lower() in plain:
            found = [plain.index(label) for label in labels if label in plain]
            if labeled and not found:
                raise InputError(f"{place}: no column {' or '.join(labels)} among {names}.")
            return plain.index(premise.lower()), plain.index(hypothesis.lower()), *found[:1]
    if plain[-1] in LABELS:
        known = "; ".join(f"{premise}, {hypothesis}" for premise, hypothesis, *_ in NAMES)
        raise InputError(
            f"{place}: names of columns ({', '.join(names)[:60]}), but not of two sentences; "
            f"expected {known}, or no line of names."
        )
    return None


def _from_cells(
    cells: list[str], columns: tuple[int, ...] | None, place: str, labeled: bool
) -> _Row:
    if columns is None:
        if len(cells) != 3 and (labeled or len(cells) != 2):
            raise InputError(
                f"{place}: {len(cells)} columns; expected 3, split by tabs: {EXPECTED}, or a first "
                "line that names more."
            )
        columns = (0, 1, 2)
    elif len(cells) <= max(columns):
        raise InputError(f"{place}: {len(cells)} columns; expected {max(columns) + 1} or more.")
    premise, hypothesis = (cells[i] for i in columns[:2])
    label = _label(cells[columns[2]].strip(), place) if labeled else None
    return _Row(place, premise, hypothesis, label)


def _from_json(found: Any, place: str, labeled: bool) -> _Row:
    if not isinstance(found, dict):
        raise InputError(f"{place}: a JSON {type(found).__name__}; expected an object.")
    for premise, hypothesis, *labels in NAMES:
        if isinstance(found.get(premise), str) and isinstance(found.get(hypothesis), str):
            given = next((found[name] for name in labels if name in found), None)
            label = _label(given, place) if labeled else None
            return _Row(place, found[premise], found[hypothesis], label)
    names = " or ".join(f"{premise} and {hypothesis}" for premise, hypothesis, *_ in NAMES)
    raise InputError(f"{place}: no two sentences among {sorted(found)[:9]}; expected {names}.")


def _label(given: Any, place: str) -> str:
    if isinstance(given, str | int) and str(given) and not isinstance(given, bool):
        return str(given)
    raise InputError(f"{place}: the label is {given!r}; expected a name or a number.")
