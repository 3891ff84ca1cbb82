"""The vectors of every use, layer by layer, and the two baselines that see no more than words:
the word's own vector without context, and the mean of its sentence's vectors without context.
"""

# L layers, N uses, V distinct words, D vector dim
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmore.embedder import Embedder
from elmore.embedding import Vectors
from elmore.uses.geometry import centered
from elmore.uses.use import Use


@dataclass(frozen=True, eq=False)
class UseVectors:
    """Uses and their vectors, as the model gives them."""

    uses: list[Use]
    layers: Vectors  # (L, N, D)
    sentences: Vectors  # (N, D): layer 0 averaged over the sentence
    lexicon: list[str]
    static: Vectors  # (V, D): layer 0 of every word that stands in a sentence, their mean removed

    @property
    def top(self) -> Vectors:
        vectors: Vectors = self.layers[-1]
        return vectors  # (N, D)

    @cached_property
    def average(self) -> Vectors:
        return np.asarray(self.layers.mean(axis=0), dtype=np.float32)  # (N, D)

    def of(self, word: str) -> list[int]:
        """Which uses are of `word`."""
        return [i for i, use in enumerate(self.uses) if use.word == word]


def embed_uses(embedder: Embedder, uses: list[Use]) -> UseVectors:
    """Each sentence once."""
    embedded = embedder.embed([use.words for use in uses])
    at_word = [e.layers[:, use.position] for e, use in zip(embedded, uses, strict=True)]  # (L, D)
    sentences = [e.layers[0].mean(axis=0) for e in embedded]  # (D,)
    static = {word: v for e in embedded for word, v in zip(e.words, e.layers[0], strict=True)}
    return UseVectors(
        uses=uses,
        layers=np.stack(at_word, axis=1),  # (L, N, D)
        sentences=np.stack(sentences),  # (N, D)
        lexicon=list(static),
        static=centered(np.stack(list(static.values()))),  # (V, D)
    )
