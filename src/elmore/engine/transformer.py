"""Sentences through a Transformer biLM: words are spelled once, context is the model's own."""

# B sentences, T words in the longest, n words of one, W distinct words, L layers, P dim
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from elmore.engine.word_vectors import WordVectors
from elmore.nn.transformer import BiTransformer
from elmore.text.reader import index_words


class TransformerRunner:
    """A finished BiTransformer behind its word vectors."""

    def __init__(self, context: BiTransformer, words: WordVectors):
        self._context, self._words = context, words

    @property
    def remembers(self) -> bool:
        return self._words.alike

    def forget(self) -> None:
        """Drop all known words."""
        self._words.known.forget()

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[NDArray[Any]]:
        """(L + 1, n, 2P) per sentence."""
        distinct, index, lengths = index_words(sentences)  # (W,), (B, T), (B,)
        on_cpu = self._context.positions.device.type == "cpu"
        threads = torch.get_num_threads() if on_cpu else 1
        vectors = self._words(distinct, threads)  # (W, P)
        x = vectors[torch.from_numpy(index).to(vectors.device)]  # (B, T, P)
        contexts, _ = self._context(x, torch.from_numpy(lengths).to(vectors.device))
        layers = torch.stack([torch.cat([x, x], dim=-1), *contexts]).cpu().numpy()
        return [layers[:, i, 1 : n - 1].copy() for i, n in enumerate(lengths)]
