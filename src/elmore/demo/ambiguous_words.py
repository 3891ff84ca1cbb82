"""The demo's sentences, written for it: ambiguous words, six uses of each of their senses, the word
always spelled the same, so that a vector without context cannot tell one use from another.
"""

import difflib
from importlib.resources import files
from typing import Literal, get_args

from elmore.errors import InputError
from elmore.uses.use import Use

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


def read_uses(language: Language) -> list[Use]:
    """All uses in one language, those of a word and of a sense together."""
    text = (files("elmore.demo") / "senses.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return [
        _use(word, sense, tuple(sentence.split(" ")))
        for found, word, sense, sentence in rows
        if found == language
    ]


def _use(word: str, sense: str, words: tuple[str, ...]) -> Use:
    return Use(words, words.index(word), sense=sense)


def language_of(word: str) -> Language:
    """The language whose sentences have `word`, or an error that names words there are."""
    known = {use.word: language for language in LANGUAGES for use in read_uses(language)}
    if word in known:
        return known[word]
    near = difflib.get_close_matches(word, known, n=3)
    some = " or ".join(near) or ", ".join(known)
    raise InputError(f"--word {word!r}: the demo has no sentences with it; try {some}.")
