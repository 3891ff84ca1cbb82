"""A use: a word in its sentence. Search, demo and tasks all compare uses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BEFORE_STOP = re.compile(r" (?=[.,?，。？])")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sentence of an index stands."""

    file: str
    """Empty if it was given as a string."""
    line: int
    """From 1; 0 if there is no file."""
    text: str
    """The sentence as it is written there; empty if it was cut out of a very long one."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The passage of a sentence: a paragraph, or a few lines."""

    before: str
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class Use:
    """A word, or several words in a row, in a sentence."""

    words: tuple[str, ...]
    """The whole sentence."""
    position: int
    n_words: int = 1
    id: int | None = None
    """In an index: the number of this use, until the index is next written to."""
    sense: str = ""
    """Empty where it is not known."""
    origin: Origin | None = None
    """In an index: where the sentence stands, if that is known."""

    @property
    def word(self) -> str:
        return " ".join(self.words[slice(*self.span)])

    @property
    def span(self) -> tuple[int, int]:
        """Where the use begins, and where it has ended."""
        return self.position, self.position + self.n_words

    @property
    def sentence(self) -> str:
        return _joined(self.words)

    def marked(self, before: str, after: str) -> str:
        """The sentence with marks around the word."""
        start, stop = self.span
        return _joined([*self.words[:start], f"{before}{self.word}{after}", *self.words[stop:]])

    def snippet(self, around: int) -> str:
        """The word with a few others on either side."""
        first, end = max(0, self.position - around), self.span[1] + around
        before, after = "… " * (first > 0), " …" * (end < len(self.words))
        return f"{before}{_joined(self.words[first:end])}{after}"


def _joined(words: Sequence[str]) -> str:
    return _BEFORE_STOP.sub("", " ".join(words))
