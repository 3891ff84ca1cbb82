"""`demo`: embed sentences with ambiguous words, and report how well the senses are separated."""

# N uses, n of one word, V distinct words, D vector dim
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.demo.accuracy import Accuracy, WordAccuracy, total, word_accuracies
from elmore.demo.ambiguous_words import Language, read_uses
from elmore.demo.embedded_uses import UseVectors, embed_uses
from elmore.embedder import LayerSource
from elmore.embedding import Vectors
from elmore.search.answers import Neighbor
from elmore.uses.geometry import centered, cosines
from elmore.uses.use import Use

SHOWN: dict[Language, str] = {"en": "play", "zh": "苹果"}
"""The word whose neighbors are shown, unless another is asked for."""
_NEAREST_USES, _NEAREST_WORDS = 3, 8


@dataclass(frozen=True, slots=True)
class NearestUses:
    """A use, and the nearest uses of the same word."""

    use: Use
    nearest: list[Neighbor]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Demo:
    """The results of one model in one language."""

    language: Language
    word: str
    static_neighbors: list[tuple[str, float]]
    """Words nearest to `word` without context."""
    queries: list[NearestUses]
    """One per sense of the word."""
    words: list[WordAccuracy]
    total: Accuracy
    vectors: UseVectors


def demo(source: LayerSource, language: Language, word: str) -> Demo:
    """All results for the sentences of `language`; neighbors of `word`, one of its words."""
    vectors = embed_uses(source, read_uses(language))
    words = word_accuracies(vectors)
    return Demo(
        language=language,
        word=word,
        static_neighbors=nearest_words(vectors, word),
        queries=nearest_uses(vectors, word, vectors.best),
        words=words,
        total=total(words),
        vectors=vectors,
    )


def nearest_words(vectors: UseVectors, word: str) -> list[tuple[str, float]]:
    """The words of all sentences whose vectors without context are nearest to that of `word`."""
    here = vectors.lexicon.index(word)
    near = cosines(vectors.static[[here]], vectors.static)[0]  # (V,)
    best = _ranked(near, here)[:_NEAREST_WORDS]
    return [(vectors.lexicon[i], float(near[i])) for i in best]


def nearest_uses(vectors: UseVectors, word: str, layer: Vectors) -> list[NearestUses]:
    """For the first use of each sense of `word`, its nearest other uses in `layer`, (N, D)."""
    rows = vectors.of(word)
    uses = [vectors.uses[i] for i in rows]
    own = centered(layer[rows])  # (n, D), without what all uses of the word share
    near = cosines(own, own)  # (n, n)
    first = {use.sense: i for i, use in reversed(list(enumerate(uses)))}
    return [
        NearestUses(uses[i], [Neighbor(uses[k], float(near[i, k])) for k in best[:_NEAREST_USES]])
        for i in sorted(first.values())
        for best in [_ranked(near[i], i)]
    ]


def _ranked(near: NDArray[np.float64], query: int) -> list[int]:
    """All but the query, nearest first."""
    return [int(i) for i in np.argsort(-near, kind="stable") if i != query]
