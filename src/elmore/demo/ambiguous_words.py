"""The sentences of the demo, written for it: six uses per sense of ambiguous words. The word is
always spelled the same, so that a vector without context is the same for every use.
"""

import difflib
from importlib.resources import files
from typing import Literal, get_args

from elmore.errors import InputError
from elmore.uses.use import Use

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


def read_uses(language: Language) -> list[Use]:
    """All uses in one language, grouped by word and sense."""
    text = (files("elmore.demo") / "senses.tsv").read_text(encoding="utf-8")
    uses = []
    for found, word, sense, sentence in (line.split("\t") for line in text.splitlines()):
        if found == language:
            words = tuple(sentence.split(" "))
            uses.append(Use(words, words.index(word), sense=sense))
    return uses


def language_of(word: str) -> Language:
    """The language whose sentences have `word`, or an error that suggests other words."""
    known = {use.word: language for language in LANGUAGES for use in read_uses(language)}
    if word in known:
        return known[word]
    near = difflib.get_close_matches(word, known, n=3)
    some = " or ".join(near) or ", ".join(known)
    raise InputError(f"--word {word!r}: the demo has no sentences with it; try {some}.")
