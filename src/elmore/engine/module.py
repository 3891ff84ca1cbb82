"""Runners that use a model's own modules: a Transformer biLM, whose words are spelled once, and any
other kind of model as it is.
"""

# B inputs, T words in the longest, n words of one, W distinct words, L layers, D vector dim, P dim
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from elmore.engine.word_vectors import WordVectors
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.transformer import BiTransformer
from elmore.text.reader import Input, Reader, index_words


class ModuleRunner:
    """A model behind its reader; nothing is kept from call to call."""

    remembers = True

    def __init__(self, model: LayerModel, reader: Reader):
        self._model, self._reader = model, reader

    def embed(self, inputs: Sequence[Input]) -> list[NDArray[Any]]:
        """(L, n, D) per input."""
        states: LayerStates = self._model(self._reader.read(inputs))
        layers, mask = states.layers.cpu().numpy(), states.mask.cpu().numpy()
        return [layers[:, i, mask[i]] for i in range(len(inputs))]

    def forget(self) -> None:
        """Nothing to drop."""


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
