"""Sentences through a Transformer biLM: words are spelled once, context is the model's own."""

# B sentences, T words in the longest, n words of one, W distinct words, L layers, P dim
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.engine.word_vectors import WordVectors
from elmore.nn.transformer import BiTransformer
from elmore.text.marks import SENTENCE_BEGIN, SENTENCE_END


class TransformerRunner:
    """A finished BiTransformer behind its word vectors."""

    def __init__(self, context: BiTransformer, words: WordVectors):
        self._context, self._words = context, words

    @property
    def remembers(self) -> bool:
        return self._words.alike

    def forget(self) -> None:
        """As if no word had been seen yet."""
        self._words.known.forget()

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[NDArray[Any]]:
        """(L + 1, n, 2P) a sentence."""
        number = {SENTENCE_BEGIN: 0, SENTENCE_END: 1}
        lengths = np.array([len(words) + 2 for words in sentences], dtype=np.int64)
        index = np.zeros((len(sentences), lengths.max(initial=2)), dtype=np.int64)  # (B, T)
        for ids, words in zip(index, sentences, strict=True):
            ids[1 : len(words) + 1] = [number.setdefault(word, len(number)) for word in words]
            ids[len(words) + 1] = number[SENTENCE_END]
        on_cpu = self._context.positions.device.type == "cpu"
        threads = torch.get_num_threads() if on_cpu else 1
        vectors = self._words(list(number), threads)  # (W, P)
        x = vectors[torch.from_numpy(index).to(vectors.device)]  # (B, T, P)
        contexts, _ = self._context(x, torch.from_numpy(lengths).to(vectors.device))
        layers = torch.stack([torch.cat([x, x], dim=-1), *contexts]).cpu().numpy()
        return [layers[:, i, 1 : n - 1].copy() for i, n in enumerate(lengths)]
