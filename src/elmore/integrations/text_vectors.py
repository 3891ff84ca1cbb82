"""One vector per text, as most other libraries want it: the words of all its sentences, pooled."""

# n texts, D vector dim, K layers taken
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from elmore.embedder import Embedder, LayerSource, lens_of
from elmore.embedding import Sentence, Vectors, layer_choice, read_sentence
from elmore.errors import ConfigError, InputError
from elmore.store.cached import CachedEmbedder
from elmore.store.store import Store
from elmore.text.sentences import sentences

Pooling = Literal["mean", "max", "first"]
_LOADED = 2  # models that a process keeps: those of a pipeline and its clones are the same


@lru_cache(maxsize=_LOADED)
def loaded(model: str, device: str = "auto", precision: str = "float32") -> Embedder:
    """The model, once per process."""
    return Embedder.load(model, device=device, precision=precision)


def cached_in(embedder: Embedder, store: str | Path) -> CachedEmbedder:
    """The same with a store in front of it, made if it is not there; it keeps all layers."""
    if not Path(store).exists():
        Store.create(store, embedder)
    return CachedEmbedder(embedder, Store.open(store, embedder))


def check_pooling(pooling: str) -> None:
    if pooling not in get_args(Pooling):
        raise ConfigError(f"pooling is {pooling!r}; expected {', '.join(get_args(Pooling))}.")


def text_vectors(
    source: LayerSource, texts: Iterable[Sentence], pooling: Pooling, layers: str
) -> Vectors:
    """(n, K·D): the chosen layers side by side. A text is a string, which is split into sentences
    and words, or a list of words. One without words is a vector of zeros."""
    check_pooling(pooling)
    choice = layer_choice(layers, source.n_layers, lens=lens_of(source))
    split = [_sentences(text, i) for i, text in enumerate(texts)]
    parts = ((i, part) for i, text in enumerate(split) for part in text)
    pooled: list[list[Vectors]] = [[] for _ in split]
    weights: list[list[int]] = [[] for _ in split]
    for (i, part), found in source.stream(parts, key=lambda item: item[1]):
        if not part or (pooling == "first" and pooled[i]):
            continue
        kept = choice.select(found.layers, found.lens)  # (K, n words, D)
        pooled[i].append(_pool(kept, pooling).reshape(-1))
        weights[i].append(len(part))
    n_columns = int(np.prod(choice.shape(source.dim)))
    vectors = np.zeros((len(split), n_columns), np.float32)
    for i, (rows, counts) in enumerate(zip(pooled, weights, strict=True)):
        if rows:
            stacked = np.stack(rows)
            mean = np.average(stacked, axis=0, weights=counts)
            vectors[i] = stacked.max(axis=0) if pooling == "max" else mean
    return vectors


def _sentences(text: Sentence, position: int) -> list[list[str]]:
    if isinstance(text, str):
        return [[token.text for token in part] for part in sentences(text)]
    if isinstance(text, Sequence | np.ndarray):
        return [read_sentence(text, position).words]
    raise InputError(
        f"Text {position} is a {type(text).__name__}; expected a string or a list of words."
    )


def _pool(layers: Vectors, pooling: Pooling) -> Vectors:
    """(K, n words, D) -> (K, D)."""
    match pooling:
        case "mean":
            return np.asarray(layers.mean(axis=1), np.float32)
        case "max":
            return np.asarray(layers.max(axis=1), np.float32)
        case "first":
            return np.asarray(layers[:, 0], np.float32)
