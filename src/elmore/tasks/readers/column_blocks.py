"""Columns of any number as the CoNLL tasks write them: one word per line, a blank line between
sentences, as many columns in all lines of a sentence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmore.errors import InputError
from elmore.tasks.readers.lines import task_lines


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of one sentence, split at white space; `line` is the number of the first."""

    path: Path
    line: int
    rows: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> int:
        return len(self.rows[0])

    def column(self, number: int) -> tuple[str, ...]:
        return tuple(row[number] for row in self.rows)

    def where(self, word: int = 0) -> str:
        """As errors name it: `FILE, line 3`."""
        return f"{self.path}, line {self.line + word}"


def column_blocks(path: Path, comment: str | None = None) -> Iterator[Block]:
    """Lines that begin with `comment` are left out, and end a sentence too."""
    rows: list[tuple[str, ...]] = []
    number = 0
    for number, line in enumerate(task_lines(path), start=1):
        fields = tuple(line.split())
        if not fields or (comment is not None and line.startswith(comment)):
            if rows:
                yield Block(path, number - len(rows), tuple(rows))
            rows = []
            continue
        if rows and len(fields) != len(rows[0]):
            raise InputError(
                f"{path}, line {number}: {len(fields)} columns ({line[:40]!r}), but the sentence "
                f"began with {len(rows[0])}; every word of a sentence needs as many."
            )
        rows.append(fields)
    if rows:
        yield Block(path, number + 1 - len(rows), tuple(rows))
