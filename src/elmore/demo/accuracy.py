"""How often the nearest other use of a word has the same sense. Without context all uses are
equally near, and the share is what chance gives: computed, not drawn.
"""

# L layers, n uses of one word, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmore.demo.embedded_uses import UseVectors
from elmore.embedding import Vectors
from elmore.uses.geometry import centered, cosines

_TIE = 1e-6  # cosines nearer than this are rounding


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracy:
    """Shares of uses, 0 to 1, by what the uses are compared with."""

    static: float
    """The word's vector without context: exactly chance."""
    sentence: float
    """The mean of the sentence's vectors without context: what any look at the context gives."""
    layers: tuple[float, ...]
    """The contextual layers, up to the top: from layer 1 where layer 0 sees no context."""
    average: float
    """The mean of all layers, layer 0 included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordAccuracy:
    """One word's share."""

    word: str
    senses: tuple[str, ...]
    uses: int
    accuracy: Accuracy


def word_accuracies(vectors: UseVectors) -> list[WordAccuracy]:
    """Every word by itself, in the order of the sentences."""
    words = dict.fromkeys(use.word for use in vectors.uses)
    return [_word_accuracy(vectors, word) for word in words]


def total(words: Sequence[WordAccuracy]) -> Accuracy:
    """Over all uses, each counting once."""
    weights = np.array([w.uses for w in words], dtype=np.float64)

    def mean(shares: Sequence[float]) -> float:
        return float(np.average(np.array(shares), weights=weights))

    found = [w.accuracy for w in words]
    return Accuracy(
        static=mean([a.static for a in found]),
        sentence=mean([a.sentence for a in found]),
        layers=tuple(mean(layer) for layer in zip(*(a.layers for a in found), strict=True)),
        average=mean([a.average for a in found]),
    )


def sense_accuracy(vectors: Vectors, senses: Sequence[str]) -> float:
    """Leave one out, take its nearest by cosine; among several as near, the share that is right.
    The mean of a word's uses is the word's, not a sense's, and is removed first."""
    own = centered(vectors)
    near = cosines(own, own)  # (n, n)
    np.fill_diagonal(near, -np.inf)
    nearest = near >= near.max(axis=1, keepdims=True) - _TIE
    names = np.array(senses)
    right = nearest & (names[:, None] == names[None])
    return float((right.sum(axis=1) / nearest.sum(axis=1)).mean())


def chance(senses: Sequence[str]) -> float:
    """The share of right ones when the nearest is drawn from all others."""
    others = len(senses) - 1
    return sum(senses.count(sense) - 1 for sense in senses) / (others * len(senses))


def _word_accuracy(vectors: UseVectors, word: str) -> WordAccuracy:
    rows = vectors.of(word)
    senses = [vectors.uses[i].sense for i in rows]
    contextual = vectors.layers[vectors.first_contextual :]
    return WordAccuracy(
        word=word,
        senses=tuple(dict.fromkeys(senses)),
        uses=len(rows),
        accuracy=Accuracy(
            static=sense_accuracy(vectors.without_context[rows], senses),
            sentence=sense_accuracy(vectors.sentences[rows], senses),
            layers=tuple(sense_accuracy(layer[rows], senses) for layer in contextual),
            average=sense_accuracy(vectors.average[rows], senses),
        ),
    )
