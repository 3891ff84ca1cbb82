"""The vectors of chosen words: in context, and without. Each sentence is embedded once, and only
the words that are asked for stay in memory.

Where a source's layer 0 does not depend on the sentence, it gives the vectors without context;
elsewhere the source is asked for them.
"""

# L layers, n words of a sentence, m chosen ones, N uses, D vector dim
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import LayerSource
from elmore.embedding import Embedding, Vectors, need_lens
from elmore.models.lens import MEANING, Lens
from elmore.uses.geometry import Floats
from elmore.uses.use import Use

Item = TypeVar("Item")
Half = NDArray[np.float16]
Rows = NDArray[np.int64]
SentenceWatch = Callable[[int, int], None]
"""Told how many sentences are done, of how many."""

AVERAGE = "average"
ALL_ROWS = slice(None)


def unwatched(done: int, of: int) -> None:
    """Nobody looks."""


def use_vectors(source: LayerSource, uses: Sequence[Use], watch: SentenceWatch = unwatched) -> Half:
    """Every layer of every use, in order, (L, N, D); of several words, their mean. Consecutive uses
    that share their list of words are one sentence. At half precision."""
    sentences = [list(same) for _, same in groupby(uses, key=lambda use: id(use.words))]
    kept = np.empty((source.n_layers, len(uses), source.dim), np.float16)
    row = 0
    embedded = source.stream(sentences, key=lambda same: same[0].words)
    for done, (same, embedding) in enumerate(embedded, start=1):
        for use in same:
            kept[:, row] = embedding.layers[:, slice(*use.span)].mean(axis=1)  # (L, D)
            row += 1
        watch(done, len(sentences))
    return kept


def views(n_layers: int, lens: Lens | None = None) -> list[str]:
    """What can be looked at: each layer, where there are several their mean, and a lens."""
    layers = [f"layer {number}" for number in range(n_layers)]
    mean = [AVERAGE] if n_layers > 1 else []
    return [*layers, *mean, *([MEANING] if lens is not None else [])]


def view(kept: Half, name: str, rows: Rows | slice = ALL_ROWS, lens: Lens | None = None) -> Floats:
    """One layer, the mean of all, or what a lens makes of them, of some of the uses. The lens is
    linear: of several words it gives the mean of their vectors."""
    if name == AVERAGE:
        return np.asarray(kept[:, rows].mean(axis=0, dtype=np.float32))  # (N, D)
    if name == MEANING:
        return need_lens(lens)(kept[:, rows].astype(np.float32))  # (N, D)
    return kept[int(name.removeprefix("layer ")), rows].astype(np.float32)  # (N, D)


def stream_with_static(
    source: LayerSource,
    items: Iterable[Item],
    *,
    words: Callable[[Item], Sequence[str]],
    positions: Callable[[Item], Sequence[int]],
) -> Iterator[tuple[Item, Embedding, Vectors]]:
    """Each item with the embedding of its sentence and the vectors without context, (m, D), of the
    words at its positions. The source is asked for each distinct word once."""
    static: dict[str, Vectors] = {}
    for item, embedding in source.stream(items, key=words):
        if source.context_free:
            yield item, embedding, embedding.layers[0, positions(item)]
            continue
        chosen = [words(item)[position] for position in positions(item)]
        if new := [word for word in dict.fromkeys(chosen) if word not in static]:
            static.update(zip(new, source.static([[word] for word in new]), strict=True))
        found = [static[word] for word in chosen]
        yield item, embedding, np.stack(found) if found else embedding.layers[0, :0]
