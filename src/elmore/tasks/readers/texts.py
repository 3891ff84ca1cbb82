"""Texts and what they become: two columns separated by a tab, JSON objects under the names that
published sets use, or two files with one text per line, written `train.de,train.en`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.tasks.readers.lines import parse_json, task_lines
from elmore.tasks.task import Corpus, Words

SOURCES = ("source", "src", "text", "body", "article", "document")
TARGETS = ("target", "tgt", "summary", "subject", "title", "headline")
MORE = ("references", "ann")  # further references of the same source


@dataclass(frozen=True, slots=True)
class Text:
    """A source, split at spaces, and its references, of which training takes the first."""

    source: Words
    references: tuple[str, ...] = ()


def read_texts(path: Path) -> Corpus[Text]:
    """Texts with references; nothing may be empty."""
    examples = []
    for where, source, references in _rows(path):
        found = tuple(" ".join(reference.split()) for reference in references)
        if not source.split() or not found or not all(found):
            which = "source" if not source.split() else "target"
            raise InputError(f"{where}: its {which} is empty; remove the pair or complete it.")
        examples.append(Text(tuple(source.split()), found))
    if not examples:
        raise InputError(f"{path}: no pair found; expected source, tab and target on each line.")
    return Corpus(examples)


def read_sources(path: Path) -> Corpus[Text]:
    """Plain lines, or JSON objects with a source; an empty line stays an empty text."""
    examples = []
    for number, line in enumerate(task_lines(path), start=1):
        text = line
        if line.lstrip().startswith("{"):
            where = f"{path}, line {number}"
            text = _joined(_named(parse_json(line, where), SOURCES, where), where)
        examples.append(Text(tuple(text.split())))
    if not any(example.source for example in examples):
        raise InputError(f"{path}: no words found; expected one text per line.")
    blank = sum(not example.source for example in examples)
    note = f"{blank:,} blank lines: their output is empty"
    return Corpus(examples, (note,) if blank else ())


def two_files(path: Path) -> list[Path]:
    """The files that a path names: itself, or two of them with a comma between them."""
    if path.exists() or "," not in str(path):
        return [path]
    first, _, second = str(path).partition(",")
    return [Path(first), Path(second)]


def _rows(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Each pair with its place."""
    match two_files(path):
        case [source, target]:
            yield from _parallel(source, target)
        case _:
            yield from _lines(path)


def _parallel(source: Path, target: Path) -> Iterator[tuple[str, str, list[str]]]:
    lines = [list(task_lines(file)) for file in (source, target)]
    n, m = map(len, lines)
    if n != m:
        raise InputError(
            f"{source} has {n:,} lines, but {target} has {m:,}; expected one line for each."
        )
    for number, (one, other) in enumerate(zip_longest(*lines), start=1):
        yield f"{source} and {target.name}, line {number}", one, [other]


def _lines(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    for number, line in enumerate(task_lines(path), start=1):
        where = f"{path}, line {number}"
        if line.lstrip().startswith("{"):
            row = parse_json(line, where)
            source = _joined(_named(row, SOURCES, where), where)
            yield where, source, _references(row, where)
            continue
        cells = line.split("\t")
        if len(cells) < 2:
            raise InputError(
                f"{where}: {len(cells)} column; expected source, tab and target, a JSON object, or "
                "two files written SOURCE,TARGET."
            )
        yield where, cells[0], [cells[1]]


def _references(row: Any, where: str) -> list[str]:
    target = _named(row, TARGETS, where)
    found = target if isinstance(target, list) else [target]
    found = [*found, *(more for name in MORE for more in row.get(name) or [])]
    if not all(isinstance(text, str) for text in found):
        raise InputError(f"{where}: a target that is not text; expected text or a list of texts.")
    return [text for i, text in enumerate(found) if i == 0 or text.strip()]


def _named(row: Any, names: Iterable[str], where: str) -> Any:
    for name in names if isinstance(row, dict) else ():
        if name in row:
            return row[name]
    raise InputError(f"{where}: none of {', '.join(names)} is there; expected one of them.")


def _joined(source: Any, where: str) -> str:
    parts = source if isinstance(source, list) else [source]
    if not all(isinstance(part, str) for part in parts):
        raise InputError(f"{where}: a source that is not text; expected text or a list of texts.")
    return " ".join(parts)
