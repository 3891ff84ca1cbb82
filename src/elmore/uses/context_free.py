"""Vectors of words without context. Where a source's layer 0 does not depend on the sentence, they
are layer 0 itself; elsewhere they are layer 0 of the word embedded alone.
"""

# L layers, m chosen words of a sentence, D vector dim
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from elmore.embedder import LayerSource
from elmore.embedding import Embedding, Vectors

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Alone:
    """A word as a sentence of its own."""

    word: str


def stream_with_static(
    source: LayerSource,
    items: Iterable[Item],
    *,
    words: Callable[[Item], Sequence[str]],
    positions: Callable[[Item], Sequence[int]],
) -> Iterator[tuple[Item, Embedding, Vectors]]:
    """Each item with the embedding of its sentence and the vectors without context, (m, D), of the
    words at its positions. Each distinct word is embedded alone once, and only where it must be."""
    if source.context_free:
        for item, embedding in source.stream(items, key=words):
            yield item, embedding, embedding.layers[0, positions(item)]
        return
    static: dict[str, Vectors] = {}
    both = _with_new_words(items, words, positions)

    def sentence(one: Item | _Alone) -> Sequence[str]:
        return [one.word] if isinstance(one, _Alone) else words(one)

    for one, embedding in source.stream(both, key=sentence):
        if isinstance(one, _Alone):
            static[one.word] = embedding.layers[0, 0].copy()
        else:
            found = [static[words(one)[position]] for position in positions(one)]
            yield one, embedding, np.stack(found) if found else embedding.layers[0, :0]


def _with_new_words(
    items: Iterable[Item],
    words: Callable[[Item], Sequence[str]],
    positions: Callable[[Item], Sequence[int]],
) -> Iterator[Item | _Alone]:
    """Every item, and before it those of its chosen words that have not come yet."""
    seen: set[str] = set()
    for item in items:
        for word in [words(item)[position] for position in positions(item)]:
            if word not in seen:
                seen.add(word)
                yield _Alone(word)
        yield item
