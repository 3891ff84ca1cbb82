"""Sentences from text files: the one reader behind every command that takes sentences.
Words are separated by spaces, or found in raw text by the tokenizer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.files.text_file import Errors, read_lines
from elmore.text.sentences import sentences
from elmore.text.tokenize import words


def line_words(line: str, *, tokenize: bool) -> list[str]:
    """The words of one line that is one sentence; an empty list for a blank line."""
    return words(line) if tokenize else line.split()


@dataclass(frozen=True, slots=True)
class SentenceFiles:
    """The words of every sentence, file after file. It can be iterated again and again."""

    paths: Sequence[str | Path]
    tokenize: bool = False
    """Lines are raw text; otherwise words are separated by spaces."""
    errors: Errors = "strict"
    split_lines: bool = False
    """With `tokenize`: a line may hold several sentences; otherwise a line is one sentence."""
    keep_blank: bool = False
    """A blank line is a sentence without words; otherwise it is skipped."""

    def __iter__(self) -> Iterator[list[str]]:
        for path in self.paths:
            for line in read_lines(path, errors=self.errors):
                for found in self._sentences(line):
                    if found or self.keep_blank:
                        yield found

    def _sentences(self, line: str) -> list[list[str]]:
        if self.tokenize and self.split_lines:
            return [[token.text for token in tokens] for tokens in sentences(line)] or [[]]
        return [line_words(line, tokenize=self.tokenize)]
