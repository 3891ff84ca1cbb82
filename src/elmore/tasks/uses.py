"""The vectors of chosen words: a corpus goes through an encoder once, and of each sentence only the
words that are asked for stay in memory, at half precision.
"""

# L layers, n words of a sentence, N uses kept, D vector dim
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import Embedding

Half = NDArray[np.float16]
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Watch = Callable[[int, int], None]
"""Told how many sentences are through, of how many."""

AVERAGE = "average"
ALL_ROWS = slice(None)


class LayerEncoder(Protocol):
    """Anything that gives layers (L, n, D) for lists of words, in order: an `Embedder`, one with a
    store behind it, static vectors."""

    @property
    def n_layers(self) -> int: ...

    @property
    def dim(self) -> int: ...

    def stream(self, sentences: Iterable[Sequence[str]]) -> Iterator[Embedding]: ...


@dataclass(frozen=True, slots=True)
class Marked:
    """A sentence and the stretches of it whose vectors are wanted."""

    words: Sequence[str]
    spans: Sequence[tuple[int, int]]


def unwatched(done: int, of: int) -> None:
    """Nobody looks."""


def use_vectors(encoder: LayerEncoder, marked: Sequence[Marked], watch: Watch = unwatched) -> Half:
    """Every layer of every stretch, in order; of several words, their mean."""
    n_uses = sum(len(sentence.spans) for sentence in marked)
    kept = np.empty((encoder.n_layers, n_uses, encoder.dim), np.float16)  # (L, N, D)
    use = 0
    embeddings = encoder.stream(sentence.words for sentence in marked)
    for done, (sentence, embedding) in enumerate(zip(marked, embeddings, strict=True), start=1):
        for start, stop in sentence.spans:
            kept[:, use] = embedding.layers[:, start:stop].mean(axis=1)  # (L, D)
            use += 1
        watch(done, len(marked))
    return kept


def views(n_layers: int) -> list[str]:
    """What can be looked at: each layer, and where there are several their mean."""
    layers = [f"layer {number}" for number in range(n_layers)]
    return layers if n_layers == 1 else [*layers, AVERAGE]


def view(kept: Half, name: str, rows: Rows | slice = ALL_ROWS) -> Floats:
    """One layer, or the mean of all, of some of the uses."""
    if name == AVERAGE:
        return np.asarray(kept[:, rows].mean(axis=0, dtype=np.float32))  # (N, D)
    return kept[int(name.removeprefix("layer ")), rows].astype(np.float32)  # (N, D)


def unit(vectors: Floats) -> Floats:
    """At length one; a vector of zeros stays so, as near to one as to another."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))
