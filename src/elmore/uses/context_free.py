"""Vectors of words without context. Where a source's layer 0 does not depend on the sentence, they
are layer 0 itself; elsewhere the source is asked for them.
"""

# m chosen words of a sentence, D vector dim
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from elmore.embedder import LayerSource
from elmore.embedding import Embedding, Vectors

Item = TypeVar("Item")


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
