"""The vectors of every use, layer by layer, and two baselines without a contextual model: the
word's vector without context, and the mean of its sentence's vectors without context.
"""

# L layers, N uses, V distinct words, D vector dim
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmore.embedder import LayerSource, lens_of
from elmore.embedding import Vectors
from elmore.models.lens import Lens
from elmore.uses.geometry import centered
from elmore.uses.use import Use
from elmore.uses.use_vectors import stream_with_static


@dataclass(frozen=True, eq=False)
class UseVectors:
    """Uses and their vectors from the model."""

    uses: list[Use]
    layers: Vectors  # (L, N, D)
    sentences: Vectors  # (N, D): the sentence's words, or pieces, without context, averaged
    lexicon: list[str]
    static: Vectors  # (V, D): every word of the sentences without context, their mean removed
    context_free: bool = True
    """Whether layer 0 does not depend on the context."""
    lens: Lens | None = None
    """Of the model, if it has one."""

    @property
    def first_contextual(self) -> int:
        """The number of the lowest layer that sees the sentence."""
        return 1 if self.context_free else 0

    @property
    def without_context(self) -> Vectors:
        """The context-free vector of the word of each use, (N, D)."""
        if self.context_free:
            vectors: Vectors = self.layers[0]
            return vectors
        return self.static[[self.lexicon.index(use.word) for use in self.uses]]

    @property
    def top(self) -> Vectors:
        vectors: Vectors = self.layers[-1]
        return vectors  # (N, D)

    @cached_property
    def meaning(self) -> Vectors | None:
        """What the lens makes of each use, (N, D); None without one."""
        return None if self.lens is None else self.lens(self.layers)

    @property
    def best(self) -> Vectors:
        """What is compared where one choice is shown: the lens, or else the top layer, (N, D)."""
        return self.top if self.meaning is None else self.meaning

    @cached_property
    def average(self) -> Vectors:
        return np.asarray(self.layers.mean(axis=0), dtype=np.float32)  # (N, D)

    def of(self, word: str) -> list[int]:
        """The positions of the uses of `word`."""
        return [i for i, use in enumerate(self.uses) if use.word == word]


def embed_uses(source: LayerSource, uses: list[Use]) -> UseVectors:
    """Embed each sentence once."""
    layers, sentences, static = [], [], dict[str, Vectors]()
    for use, embedding, words in stream_with_static(
        source, uses, words=lambda use: use.words, positions=lambda use: range(len(use.words))
    ):
        layers.append(embedding.layers[:, use.position])  # (L, D)
        bag = words.mean(axis=0) if source.context_free else source.static([use.words])[0]
        sentences.append(bag)  # (D,)
        static.update(zip(embedding.words, words, strict=True))
    return UseVectors(
        uses=uses,
        lens=lens_of(source),
        layers=np.stack(layers, axis=1),  # (L, N, D)
        sentences=np.stack(sentences),  # (N, D)
        lexicon=list(static),
        static=centered(np.stack(list(static.values()))),  # (V, D)
        context_free=source.context_free,
    )
