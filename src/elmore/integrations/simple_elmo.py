"""A drop-in for code written against simple_elmo: change the import line, keep the rest. Names,
shapes and dtypes are simple_elmo's. What differs, on purpose: no state is kept between batches
(unless `stateful=True` asks for the old numbers), rows of padding are zero, and the average of a
sentence is over its own words, so that it does not depend on the other sentences of the batch.
"""

# B texts, T words of the longest, L layers with the context-free one, D vector dim, V words
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.checkpoint.sources import load
from elmore.embedder import Embedder
from elmore.embedding import Embedding, LayersAsked, layer_choice
from elmore.errors import ConfigError, InputError
from elmore.integrations.allennlp_text import word_lists
from elmore.predictor.both_directions import BothDirections
from elmore.predictor.place import read_place
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END

Array = NDArray[np.float64]
_LAYERS = ("average", "top", "all")


class ElmoModel:
    """`load` a model, then ask for the vectors of texts: lists of words."""

    def __init__(self, *, stateful: bool = False):
        self._stateful = stateful
        self._embedder: Embedder | None = None
        self._predictor: BothDirections | None = None
        self.batch_size = self.vector_size = self.n_layers = 0

    def load(
        self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False
    ) -> str:
        """Anything `elmore.Embedder.load` takes. `full=True` also reads what predicts words, for
        `get_elmo_substitutes`. `limit` is not needed: words are not cached ahead of time."""
        if max_batch_size < 1:
            raise ConfigError(f"max_batch_size is {max_batch_size}; expected 1 or more.")
        checkpoint = load(directory, heads=full)
        self._embedder = Embedder(checkpoint, source=str(directory))
        if full:
            self._predictor = BothDirections(checkpoint, str(directory), self._embedder.device)
        self.batch_size = max_batch_size
        self.vector_size, self.n_layers = self._embedder.dim, self._embedder.n_layers
        return "The model is now loaded."

    def get_elmo_vectors(
        self,
        texts: Iterable[Iterable[str]],
        warmup: bool = True,
        layers: str = "average",
        session: object = None,
    ) -> Array:
        """(B, T, D), or (B, L, T, D) for all layers; zero where a text has no more words."""
        found = self._embed(texts, warmup)
        longest = max((len(e) for e in found), default=0)
        n = self.n_layers if layers == "all" else 1
        vectors = np.zeros((len(found), n, longest, self.vector_size))
        for row, embedding in zip(vectors, found, strict=True):
            row[:, : len(embedding)] = _chosen(embedding, layers)
        return vectors if layers == "all" else vectors[:, 0]

    def get_elmo_vector_average(
        self,
        texts: Iterable[Iterable[str]],
        warmup: bool = True,
        layers: str = "average",
        session: object = None,
    ) -> Array:
        """The mean of each text's words, of length 1: (B, D), or (B, L, D) for all layers."""
        found = self._embed(texts, warmup)
        n = self.n_layers if layers == "all" else 1
        means = np.zeros((len(found), n, self.vector_size))
        for row, embedding in zip(means, found, strict=True):
            if len(embedding):
                mean = _chosen(embedding, layers).mean(axis=1, dtype=np.float64)  # (L, D)
                row[:] = mean / np.linalg.norm(mean)
        return means if layers == "all" else means[:, 0]

    def get_elmo_substitutes(
        self, raw_texts: Sequence[str | Sequence[str]], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """For each word of each text, the `topn` words each direction finds most likely there, by
        their log-probabilities. Texts are words separated by spaces. Needs `load(full=True)`."""
        if self._predictor is None:
            raise ConfigError("The model was loaded without what predicts words: load(full=True).")
        answers = []
        for i, text in enumerate(raw_texts):
            words = text.split() if isinstance(text, str) else list(text)
            places = [read_place(words, at, i) for at in range(len(words))]
            both = self._predictor.directions(places) if places else ()
            sides = [_best(scores, self._predictor.words, topn, nodelimiters) for scores in both]
            answers.append(
                [
                    {"word": word, "forward": ahead, "backward": behind}
                    for word, ahead, behind in zip(words, *sides, strict=True)
                ]
            )
        return answers

    def warmup(self, *_: object) -> None:
        """Nothing to do: without state the first sentence has the same vectors as any other."""

    def _embed(self, texts: Iterable[Iterable[str]], warmup: bool) -> list[Embedding]:
        if self._embedder is None:
            raise InputError("No model yet: call load(directory) first.")
        sentences = word_lists(texts)
        if not self._stateful:
            return self._embedder.embed(sentences)
        run, chunks = self._embedder.stateful(), list(_chunks(sentences, self.batch_size))
        if warmup and chunks:
            run.embed(chunks[0])
        return [embedding for chunk in chunks for embedding in run.embed(chunk)]


def _chosen(embedding: Embedding, layers: str) -> NDArray[np.float32]:
    if layers not in _LAYERS:
        raise ConfigError(f"layers is {layers!r}; expected average, top or all.")
    asked: LayersAsked = layers
    return layer_choice(asked, len(embedding.layers)).select(embedding.layers)  # (K, n, D)


def _best(
    scores: Tensor, words: Sequence[str], topn: int, nodelimiters: bool
) -> list[dict[str, Any]]:
    """(n, V) -> for each place its candidates and their log-probabilities, the best first."""
    logs = torch.log_softmax(scores.double(), dim=-1)
    if nodelimiters:
        marks = [i for i, word in enumerate(words) if word in (SENTENCE_BEGIN, SENTENCE_END)]
        logs[:, marks] = -torch.inf
    best, numbers = logs.topk(min(topn, len(words)), dim=-1)
    kept = [torch.isfinite(row) for row in best]
    return [
        {"candidate_words": [words[i] for i in at[keep].tolist()], "logp": row[keep].tolist()}
        for row, at, keep in zip(best, numbers, kept, strict=True)
    ]


def _chunks(sentences: list[list[str]], n: int) -> Iterator[list[list[str]]]:
    return (sentences[i : i + n] for i in range(0, len(sentences), n))
