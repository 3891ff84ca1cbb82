"""A place in a sentence, the words that fit it, and the joint that every kind of model fills."""

# B places, V words that a model can predict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmore.embedding import Sentence, read_sentence
from elmore.errors import InputError
from elmore.text.reader import Words


class Place(NamedTuple):
    """A word of a sentence, counted from 0. The model sees the other words, not this one."""

    words: Words
    position: int


@dataclass(frozen=True, slots=True)
class Substitute:
    """A word for a place, and how likely it is there."""

    word: str
    probability: float


class PlacePredictor(Protocol):
    """One kind of model that predicts words from both sides of a place."""

    words: list[str]
    """(V,) by number; empty where a number has no word."""
    whole: NDArray[np.bool_]
    """(V,), which of them are whole words: no marks, no pieces that continue a word."""

    def length(self, place: Place) -> int:
        """Positions that its sentence takes, marks included."""

    def log_probs(self, places: Sequence[Place]) -> Tensor:
        """(B, V); the word at the place has no influence."""


def read_place(sentence: object, position: object, number: int) -> Place:
    """A place that was given, checked; `number` is for the error message."""
    words = read_sentence(sentence, number).words
    if not isinstance(position, int | np.integer) or not 0 <= position < len(words):
        raise InputError(
            f"Place {number} is {position!r}; expected the number of a word of its sentence, which "
            f"has {len(words)} words, counted from 0."
        )
    return Place(words, int(position))


def places_of(sentence: Sentence, word: str) -> list[Place]:
    """Where a word is in a sentence, from left to right; an error if it is nowhere."""
    words = read_sentence(sentence, 0).words
    found = [Place(words, i) for i, other in enumerate(words) if other == word]
    if not found:
        raise InputError(f"{word!r} is not a word of the sentence; its words are {words}.")
    return found
