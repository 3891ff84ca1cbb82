"""A sentence with its vectors, and how sentences are read: strings are tokenized, lists are not."""

# L layers, n words, D vector dim
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.errors import ConfigError, InputError
from elmore.text.tokenize import tokenize

Sentence = str | Sequence[str]
Vectors = NDArray[np.float32]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """One sentence: its words and every layer of their vectors."""

    words: list[str]
    layers: Vectors  # (L, n, D)
    spans: list[Span] | None = None
    """Where each word stands in the text, when the sentence was given as a string."""

    @property
    def top(self) -> Vectors:
        vectors: Vectors = self.layers[-1]
        return vectors  # (n, D)

    @property
    def average(self) -> Vectors:
        return np.asarray(self.layers.mean(axis=0), dtype=np.float32)  # (n, D)

    def mix(self, weights: Sequence[float], gamma: float = 1.0) -> Vectors:
        """γ Σ s_j h_j with the weights as they are given."""
        if len(weights) != len(self.layers):
            raise ConfigError(f"{len(weights)} mix weights given for {len(self.layers)} layers.")
        mixed = gamma * np.tensordot(np.asarray(weights, np.float32), self.layers, axes=1)
        return np.asarray(mixed, dtype=np.float32)  # (n, D)

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence that has been checked: its words, and their spans if it was a string."""

    words: list[str]
    spans: list[Span] | None


def read_sentence(sentence: object, position: int) -> ReadSentence:
    """`position` is for the error message."""
    if isinstance(sentence, str):
        tokens = tokenize(sentence)
        return ReadSentence([t.text for t in tokens], [(t.start, t.end) for t in tokens])
    if isinstance(sentence, np.ndarray) and sentence.ndim == 1:
        sentence = sentence.tolist()
    if not isinstance(sentence, Sequence) or isinstance(sentence, bytes):
        raise InputError(
            f"Sentence {position} is a {type(sentence).__name__}; "
            "expected a string or a list of words."
        )
    for i, word in enumerate(sentence):
        if not isinstance(word, str):
            raise InputError(
                f"Sentence {position}, word {i} is a {type(word).__name__} ({word!r}); "
                "expected a string."
            )
    return ReadSentence(list(sentence), None)


def checked(sentences: object) -> Iterable[object]:
    """The same, if it is a collection of sentences."""
    if isinstance(sentences, str | bytes):
        raise InputError("Got one string where a list of sentences is expected: write [text].")
    if not isinstance(sentences, Iterable):
        raise InputError(f"Got a {type(sentences).__name__}; expected a list of sentences.")
    return sentences


def read_sentences(sentences: object) -> Iterator[ReadSentence]:
    """One after another; an error names the sentence's position."""
    return (read_sentence(sentence, i) for i, sentence in enumerate(checked(sentences)))


def read_words(sentences: object) -> list[list[str]]:
    """The words of every sentence."""
    return [read.words for read in read_sentences(sentences)]
