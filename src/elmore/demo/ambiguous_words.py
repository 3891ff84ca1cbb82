"""The sentences of the demo, written for it: six uses per sense of ambiguous words. The word is
always spelled the same, so that a vector without context is the same for every use.
"""

import difflib
from importlib.resources import files
from typing import Literal, get_args

from elmore.errors import InputError
from elmore.text.dictionary_reader import DictionaryReader
from elmore.text.reader import Reader
from elmore.text.unreadable import find_unreadable
from elmore.uses.use import Use

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
FILES: dict[Language, str] = {"en": "senses.tsv", "zh": "senses.zh.tsv"}
_EVERY = 6  # one sentence per sense is enough to tell which language a model reads


def read_uses(language: Language) -> list[Use]:
    """All uses in one language, grouped by word and sense."""
    text = (files("elmore.demo") / FILES[language]).read_text(encoding="utf-8")
    uses = []
    for _, word, sense, sentence in (line.split("\t") for line in text.splitlines()):
        words = tuple(sentence.split(" "))
        uses.append(Use(words, words.index(word), sense=sense))
    return uses


def language_read_by(reader: Reader) -> Language:
    """The language that a model reads best: of which it knows the letters, and the most words if it
    lists words, and in the fewest positions per word; English, if it reads both alike."""

    def trouble(language: Language) -> tuple[bool, float, float]:
        sentences = [list(use.words) for use in read_uses(language)[::_EVERY]]
        n_words = sum(map(len, sentences))
        unread = find_unreadable(reader, sentences) is not None
        length = sum(map(reader.length, sentences)) / n_words
        return unread, _unlisted(reader, sentences), round(length, 1)

    return min(LANGUAGES, key=trouble)


def _unlisted(reader: Reader, sentences: list[list[str]]) -> float:
    """The share of words without a vector of their own; 0 for a model that has no such vectors."""
    match reader:
        case DictionaryReader(words=dict(listed)):
            words = [word for sentence in sentences for word in sentence]
            return sum(word not in listed for word in words) / len(words)
        case _:
            return 0.0


def language_of(word: str) -> Language:
    """The language whose sentences have `word`, or an error that suggests other words."""
    known = {use.word: language for language in LANGUAGES for use in read_uses(language)}
    if word in known:
        return known[word]
    near = difflib.get_close_matches(word, known, n=3)
    some = " or ".join(near) or ", ".join(known)
    raise InputError(f"--word {word!r}: the demo has no sentences with it; try {some}.")
