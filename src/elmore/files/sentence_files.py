"""Sentences from text files: the one reader behind every command that takes sentences. Words are
separated by spaces, or found in raw text by the tokenizer.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from elmore.errors import ElmoreWarning, InputError
from elmore.files.text_file import Errors, read_lines
from elmore.text.raw_text import Raw, judge
from elmore.text.sentences import sentences
from elmore.text.tokenize import words
from elmore.text.word_tables import Table, table_of
from elmore.text.wrapped import Paragraph, unwrap, wrap_width

Lines = Literal["auto", "sentence", "paragraph", "wrapped"]
"""What a line of raw text is; `auto` finds out whether the text is wrapped, and otherwise takes
each line for a paragraph."""

LONGEST = 5_000
"""Words of a sentence; a longer one is read in pieces, to limit the memory of its vectors."""
_SAMPLE_LINES, _SAMPLE_CHARACTERS = 1_000, 1 << 18  # what is looked at before a file is read
_LONGEST_LINE = 1 << 20  # characters; a longer one is cut, if possible after a sentence
_CUTS = (re.compile(r".*[.!?。！？]\s", re.DOTALL), re.compile(r".*\s", re.DOTALL))


def line_words(line: str, *, tokenize: bool) -> list[str]:
    """The words of one line that is one sentence; an empty list for a blank line."""
    return words(line) if tokenize else line.split()


class TextSentence(NamedTuple):
    """A sentence as it stands in the text, and its words."""

    text: str
    words: list[str]


@dataclass(frozen=True, slots=True)
class SentenceFiles:
    """The words of every sentence, file after file. It can be iterated again and again."""

    paths: Sequence[str | Path]
    tokenize: bool = False
    """The files are raw text; otherwise words are separated by spaces, one sentence per line."""
    errors: Errors = "strict"
    lines: Lines = "auto"
    """With `tokenize`: what a line is."""
    as_is: bool = False
    """Do not ask whether words separated by spaces are raw text, or a file is a table of words."""
    keep_blank: bool = False
    """A blank line is a sentence without words; otherwise it is skipped."""
    longest: int | None = LONGEST

    def __iter__(self) -> Iterator[list[str]]:
        return (sentence.words for sentence in self.texts())

    def texts(self) -> Iterator[TextSentence]:
        """The sentences with their texts."""
        return (
            sentence
            for path in self.paths
            for _, part in self.paragraphs(path)
            for sentence in part
        )

    def paragraphs(self, path: str | Path) -> Iterator[tuple[Paragraph, Iterator[TextSentence]]]:
        """The lines of one of the files, or its paragraphs, each with its sentences."""
        return ((line, self._texts(line.text, path)) for line in self._lines(path))

    def unsplit(self) -> Iterator[str]:
        """Lines, or paragraphs of wrapped text, before they are split into sentences and words."""
        return (line.text for path in self.paths for line in self._lines(path))

    def split(self, line: str) -> Iterator[list[str]]:
        """The words of every sentence of such a line."""
        return (sentence.words for sentence in self._texts(line, "the text"))

    def _texts(self, line: str, path: str | Path) -> Iterator[TextSentence]:
        for part in [line] if self.longest is None else _cut(line):
            for sentence in self._sentences(part):
                if self.longest is not None and len(sentence.words) > self.longest:
                    yield from self._pieces(sentence, path)
                elif sentence.words or self.keep_blank:
                    yield sentence

    def _lines(self, path: str | Path) -> Iterator[Paragraph]:
        """Each is one sentence, or a paragraph."""
        lines = read_lines(path, errors=self.errors)
        if not self.tokenize:
            return _numbered(lines if self.as_is else _checked(lines, path))
        return _numbered(lines) if self.lines == "sentence" else self._paragraphs(lines, path)

    def _sentences(self, line: str) -> Iterator[TextSentence]:
        if not self.tokenize or self.lines == "sentence":
            yield TextSentence(line, line_words(line, tokenize=self.tokenize))
            return
        if not line.strip():
            yield TextSentence("", [])
        for tokens in sentences(line):
            text = line[tokens[0].start : tokens[-1].end]
            yield TextSentence(text, [token.text for token in tokens])

    def _paragraphs(self, lines: Iterator[str], path: str | Path) -> Iterator[Paragraph]:
        if self.lines == "paragraph":
            return _numbered(lines)
        first, rest = _sample(lines)
        if not self.as_is:
            _refuse_table(first, path)
        width = wrap_width(first)
        if self.lines == "wrapped":
            return unwrap(rest, width or max(map(len, first), default=0))
        if width is None:
            return _numbered(rest)
        _warn(
            f"{path}: its lines are wrapped after about {width} characters; they are joined to "
            "paragraphs (--lines paragraph takes each line for itself)."
        )
        return unwrap(rest, width)

    def _pieces(self, sentence: TextSentence, path: str | Path) -> Iterator[TextSentence]:
        assert self.longest is not None
        _warn(
            f"{path}: a sentence of more than {self.longest:,} words is read in pieces, each a "
            "sentence of its own; is --tokenize missing, or an end of line?"
        )
        for start in range(0, len(sentence.words), self.longest):
            part = sentence.words[start : start + self.longest]
            yield TextSentence(" ".join(part), part)


def _numbered(lines: Iterator[str]) -> Iterator[Paragraph]:
    return (Paragraph(line, number) for number, line in enumerate(lines, start=1))


def _cut(line: str) -> Iterator[str]:
    """The line, in pieces if it is longer than any paragraph."""
    start = 0
    while len(line) - start > _LONGEST_LINE:
        _warn(f"A line of over {_LONGEST_LINE:,} characters is read in pieces of this size.")
        limit = start + _LONGEST_LINE
        found = (cut.match(line, start, limit) for cut in _CUTS)
        end = next((match.end() for match in found if match), limit)
        yield line[start:end]
        start = end
    yield line[start:] if start else line


def _checked(lines: Iterator[str], path: str | Path) -> Iterator[str]:
    """The lines, if they are not raw text and no table."""
    first, rest = _sample(lines)
    _refuse_table(first, path)
    verdict = judge(line[:_SAMPLE_CHARACTERS] for line in first)
    if verdict.raw is Raw.EVIDENT:
        raise InputError(
            f"{path}: raw text (such as {verdict.example!r}); expected words separated by spaces: "
            "add --tokenize to split it into sentences and words, or --as-is to read it unchanged."
        )
    if verdict.raw is Raw.LIKELY:
        _warn(
            f"{path}: this looks like raw text (such as {verdict.example!r}), and words are split "
            "at spaces only; --tokenize splits it properly, --as-is says that it is meant so."
        )
    return rest


def _refuse_table(first: Sequence[str], path: str | Path) -> None:
    table = table_of(first)
    if table is None:
        return
    cure = "Write the words of a sentence in one line, with spaces between them"
    if table is Table.TAGGED:
        cure += "; `elmore task train` reads such a file as it is"
    raise InputError(
        f"{path}: this is {table.value}, and text was expected. {cure}. (--as-is reads every row "
        "as a sentence.)"
    )


def _sample(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """The first lines, and all lines. An error in the first lines is raised in its place."""
    first: list[str] = []
    n_characters = 0
    try:
        for line in lines:
            first.append(line)
            n_characters += len(line)
            if len(first) == _SAMPLE_LINES or n_characters >= _SAMPLE_CHARACTERS:
                break
    except InputError as error:
        lines = _raising(error)
    return first, chain(first, lines)


def _raising(error: InputError) -> Iterator[str]:
    raise error
    yield


def _warn(message: str) -> None:
    warnings.warn(message, ElmoreWarning, stacklevel=3)
