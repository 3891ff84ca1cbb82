"""Text whose lines are cut at a fixed width, as in most plain-text books: how it is recognized, and
how its lines are joined to paragraphs again.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from elmore.text.sentences import CLOSERS, ENDS
from elmore.text.tokenize import has_unspaced

_FEWEST_PAIRS = 8
_NARROWEST, _WIDEST = 40, 120  # characters; half of it in Chinese and Japanese
_FULL, _OPEN, _SMALL = 0.7, 0.4, 0.25  # of the pairs of consecutive lines; see `wrap_width`
_SLACK = 0.85  # a line of less than this share of the width ends where its author wanted
_LONGEST = 100_000  # characters, of a paragraph without a blank line
_LETTER = re.compile(r"[^\W\d_]")


def wrap_width(lines: Sequence[str]) -> int | None:
    """The width at which these first lines of a text were wrapped; None if they were not.

    In wrapped text the first word of the next line would not have fitted on most lines, many lines
    end inside a sentence, and many begin with a small letter."""
    texts = [line.rstrip() for line in lines]
    pairs = [(a, b) for a, b in pairwise(texts) if a and b and not b[0].isspace()]
    if len(pairs) < max(_FEWEST_PAIRS, sum(map(bool, texts)) // 3):
        return None
    width = sorted(len(a) for a, _ in pairs)[len(pairs) * 19 // 20]
    dense = 2 * sum(has_unspaced(a[-1]) for a, _ in pairs) > len(pairs)
    if not _NARROWEST <= (2 * width if dense else width) <= _WIDEST:
        return None
    full = sum(_reaches(a, b, width) for a, b in pairs)
    inside = sum(not _ends_sentence(a) for a, _ in pairs)
    first = [found[0] for _, b in pairs if (found := _LETTER.search(b))]
    cased = [letter for letter in first if letter.lower() != letter.upper()]
    small = sum(letter.islower() for letter in cased)
    enough = full >= _FULL * len(pairs) and inside >= _OPEN * len(pairs)
    return width if enough and small >= _SMALL * len(cased) else None


class Paragraph(NamedTuple):
    """A paragraph and its lines."""

    text: str
    line: int = 1
    """The number of its first line in the file."""
    starts: tuple[int, ...] = (0,)
    """Where each of its lines begins in the text."""

    def line_at(self, place: int) -> int:
        """The number of the line that has this character."""
        return self.line + bisect_right(self.starts, place) - 1


def unwrap(lines: Iterable[str], width: int) -> Iterator[Paragraph]:
    """The paragraphs: they end at a blank line, before an indented line, and after a short line
    unless the next one continues it in a small letter."""
    paragraph: list[str] = []
    n_characters = number = 0
    for number, line in enumerate(lines, start=1):
        if paragraph and not _continues(paragraph[-1], line, width, n_characters):
            yield _joined(paragraph, number)
            paragraph, n_characters = [], 0
        if line.strip():
            paragraph.append(line.rstrip())
            n_characters += len(line)
    if paragraph:
        yield _joined(paragraph, number + 1)


def _continues(before: str, line: str, width: int, n_characters: int) -> bool:
    text = line.strip()
    if not text or (line[0].isspace() and not before[0].isspace()):
        return False
    if n_characters > _LONGEST and (_ends_sentence(before) or n_characters > 10 * _LONGEST):
        return False
    return text[0].islower() or _reaches(before, text, int(_SLACK * width))


def _reaches(line: str, following: str, width: int) -> bool:
    """Whether the next line's first word would have made the line longer than `width`."""
    word = following.split(maxsplit=1)[0]
    return len(line) + (1 if has_unspaced(word[0]) else 1 + len(word)) > width


def _ends_sentence(line: str) -> bool:
    return line.rstrip("".join(mark for mark in CLOSERS if len(mark) == 1))[-1:] in ENDS


def _joined(lines: Sequence[str], after: int) -> Paragraph:
    """`after` is the number of the line that follows."""
    text, starts = lines[0].strip(), [0]
    for line in map(str.strip, lines[1:]):
        hyphen = text[-1] == "-" and text[-2:-1].isalpha() and line[0].islower()
        tight = hyphen or (has_unspaced(text[-1]) and has_unspaced(line[0]))
        text += line if tight else f" {line}"
        starts.append(len(text) - len(line))
    return Paragraph(text, after - len(lines), tuple(starts))
