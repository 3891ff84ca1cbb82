"""Text files as a corpus that can be read again and again, a sentence a line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.files.text_file import Errors, read_lines
from elmore.text.tokenize import words


@dataclass(frozen=True, slots=True)
class TextFiles:
    """The words of every line that has some, file after file."""

    paths: Sequence[str | Path]
    tokenize: bool = False
    """Lines are raw text; otherwise words between spaces."""
    errors: Errors = "strict"

    def __iter__(self) -> Iterator[list[str]]:
        for path in self.paths:
            for line in read_lines(path, errors=self.errors):
                found = words(line) if self.tokenize else line.split()
                if found:
                    yield found
