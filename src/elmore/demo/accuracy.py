"""How often the nearest other use of a word has the same sense. Without context all uses are
equally near: the share is then the exact probability of a random choice.
"""

# L layers, n uses of one word, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmore.demo.embedded_uses import UseVectors
from elmore.embedding import Vectors
from elmore.uses.geometry import centered, cosines

_TIE = 1e-6  # smaller differences of cosines are rounding errors


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracy:
    """Shares of uses, 0 to 1, by the vectors that are compared."""

    static: float
    """The word's vector without context: exactly chance."""
    sentence: float
    """The mean of the sentence's vectors without context: a baseline that sees the context."""
    layers: tuple[float, ...]
    """The contextual layers, up to the top: from layer 1 if layer 0 is context-free."""
    average: float
    """The mean of all layers, including layer 0."""
    meaning: float | None = None
    """What the model's lens makes of the layers; None without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordAccuracy:
    """The accuracy for one word."""

    word: str
    senses: tuple[str, ...]
    uses: int
    accuracy: Accuracy


def word_accuracies(vectors: UseVectors) -> list[WordAccuracy]:
    """Every word separately, in the order of the sentences."""
    words = dict.fromkeys(use.word for use in vectors.uses)
    return [_word_accuracy(vectors, word) for word in words]


def total(words: Sequence[WordAccuracy]) -> Accuracy:
    """Over all uses, each with the same weight."""
    weights = np.array([w.uses for w in words], dtype=np.float64)

    def mean(shares: Sequence[float]) -> float:
        return float(np.average(np.array(shares), weights=weights))

    found = [w.accuracy for w in words]
    lens = [a.meaning for a in found if a.meaning is not None]
    return Accuracy(
        static=mean([a.static for a in found]),
        sentence=mean([a.sentence for a in found]),
        layers=tuple(mean(layer) for layer in zip(*(a.layers for a in found), strict=True)),
        average=mean([a.average for a in found]),
        meaning=mean(lens) if len(lens) == len(found) else None,
    )


def sense_accuracy(vectors: Vectors, senses: Sequence[str]) -> float:
    """For each use, whether its nearest other use by cosine has the same sense; in a tie, the share
    that has. The mean of all uses of the word says nothing about senses and is removed first."""
    own = centered(vectors)
    near = cosines(own, own)  # (n, n)
    np.fill_diagonal(near, -np.inf)
    nearest = near >= near.max(axis=1, keepdims=True) - _TIE
    names = np.array(senses)
    right = nearest & (names[:, None] == names[None])
    return float((right.sum(axis=1) / nearest.sum(axis=1)).mean())


def chance(senses: Sequence[str]) -> float:
    """The expected share if the nearest use is chosen at random."""
    others = len(senses) - 1
    return sum(senses.count(sense) - 1 for sense in senses) / (others * len(senses))


def _word_accuracy(vectors: UseVectors, word: str) -> WordAccuracy:
    rows = vectors.of(word)
    senses = [vectors.uses[i].sense for i in rows]
    contextual, lens = vectors.layers[vectors.first_contextual :], vectors.meaning
    return WordAccuracy(
        word=word,
        senses=tuple(dict.fromkeys(senses)),
        uses=len(rows),
        accuracy=Accuracy(
            static=sense_accuracy(vectors.without_context[rows], senses),
            sentence=sense_accuracy(vectors.sentences[rows], senses),
            layers=tuple(sense_accuracy(layer[rows], senses) for layer in contextual),
            average=sense_accuracy(vectors.average[rows], senses),
            meaning=None if lens is None else sense_accuracy(lens[rows], senses),
        ),
    )
