"""From what a client sends to words, and no further than the limits allow."""

from collections.abc import Iterable
from dataclasses import dataclass

from elmore.serve.config import ServeConfig
from elmore.serve.problems import too_large
from elmore.text.tokenize import tokenize

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Read:
    """A sentence's words, and their places when it was a text."""

    words: list[str]
    spans: list[Span] | None


def read(sentence: str | list[str]) -> Read:
    if isinstance(sentence, list):
        return Read(sentence, None)
    tokens = tokenize(sentence)
    return Read([token.text for token in tokens], [(token.start, token.end) for token in tokens])


def read_all(sentences: Iterable[str | list[str]], config: ServeConfig) -> list[Read]:
    """All of a request's, or the refusal of the first word too many."""
    reads: list[Read] = []
    n_words = 0
    for sentence in sentences:
        reads.append(read(sentence))
        n_words += len(reads[-1].words)
        if len(reads) > config.max_sentences:
            raise too_large("sentences or more", len(reads), config.max_sentences)
        if n_words > config.max_words:
            raise too_large("words or more", n_words, config.max_words)
    return reads
