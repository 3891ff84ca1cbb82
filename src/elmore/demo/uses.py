"""The demo's sentences, written for it: ambiguous words, six uses of each of their senses, the word
always spelled the same, so that a vector without context cannot tell one use from another.
"""

import difflib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Literal, get_args

from elmore.errors import InputError

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_BEFORE_STOP = re.compile(r" (?=[.,?，。？])")


@dataclass(frozen=True)
class Use:
    """An ambiguous word in a sentence, and which of its senses it has there."""

    word: str
    sense: str
    words: tuple[str, ...]

    @cached_property
    def position(self) -> int:
        return self.words.index(self.word)

    @property
    def sentence(self) -> str:
        return _joined(self.words)

    def marked(self, before: str, after: str) -> str:
        """The sentence with marks around the word."""
        i = self.position
        return _joined((*self.words[:i], f"{before}{self.word}{after}", *self.words[i + 1 :]))

    def snippet(self, around: int) -> str:
        """The word with a few others on either side."""
        first, end = max(0, self.position - around), self.position + around + 1
        before, after = "… " * (first > 0), " …" * (end < len(self.words))
        return f"{before}{_joined(self.words[first:end])}{after}"


def _joined(words: tuple[str, ...]) -> str:
    return _BEFORE_STOP.sub("", " ".join(words))


def read_uses(language: Language) -> list[Use]:
    """All uses in one language, those of a word and of a sense together."""
    text = (files("elmore.demo") / "senses.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return [
        Use(word, sense, tuple(sentence.split(" ")))
        for found, word, sense, sentence in rows
        if found == language
    ]


def language_of(word: str) -> Language:
    """The language whose sentences have `word`, or an error that names words there are."""
    known = {use.word: language for language in LANGUAGES for use in read_uses(language)}
    if word in known:
        return known[word]
    near = difflib.get_close_matches(word, known, n=3)
    some = " or ".join(near) or ", ".join(known)
    raise InputError(f"--word {word!r}: the demo has no sentences with it; try {some}.")
