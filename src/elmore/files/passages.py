"""Where the sentences of text files stand: file, line, and the passage around them, which is a
paragraph, or a few lines where a line is one sentence.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmore.files.sentence_files import SentenceFiles, TextSentence
from elmore.text.wrapped import Paragraph

_ENOUGH = 400
"""Characters; a shorter line is shown with the lines after it, up to a blank one."""


class PlacedSentence(NamedTuple):
    """A sentence in its passage."""

    words: list[str]
    line: int
    """In the file, from 1."""
    start: int
    """Where it begins in the text of the passage; `end` is where it has ended. Equal: not known."""
    end: int


class Passage(NamedTuple):
    """Consecutive lines of a file."""

    file: str
    text: str
    sentences: list[PlacedSentence]


def passages(files: SentenceFiles) -> Iterator[Passage]:
    """The sentences of all files, in the order in which `files` has them."""
    return (passage for path in files.paths for passage in _of_file(files, path))


def _of_file(files: SentenceFiles, path: str | Path) -> Iterator[Passage]:
    text, sentences = "", list[PlacedSentence]()
    for paragraph, found in files.paragraphs(path):
        if sentences and (len(text) >= _ENOUGH or not paragraph.text.strip()):
            yield Passage(str(path), text, sentences)
            text, sentences = "", []
        text += "\n" * bool(text)
        sentences += _placed(paragraph, found, len(text))
        text += paragraph.text
    if sentences:
        yield Passage(str(path), text, sentences)


def _placed(
    paragraph: Paragraph, sentences: Iterator[TextSentence], shift: int
) -> Iterator[PlacedSentence]:
    """`shift` is where the paragraph begins in its passage."""
    end = 0
    for text, words in sentences:
        start = paragraph.text.find(text, end)
        length = len(text) if start >= 0 else 0
        start = max(start, end)
        end = start + length
        yield PlacedSentence(words, paragraph.line_at(start), start + shift, end + shift)
