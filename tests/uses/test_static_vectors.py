"""Vectors without context: layer 0 where it has none, the word alone where it has."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from elmore.embedding import Embedding
from elmore.uses.use_vectors import stream_with_static
from tests.store.waves import wave

SENTENCES = [["the", "bank"], ["a", "bank", "the"], []]


class Source:
    """Layers that depend on the whole sentence, layer 0 too."""

    n_layers, dim, fingerprint = 3, 8, "0"

    def __init__(self, context_free: bool):
        self.context_free = context_free
        self.asked: list[list[str]] = []

    def stream(self, items: Iterable[Any], *, key: Callable[[Any], Any]) -> Iterator[Any]:
        for item in items:
            self.asked.append(list(key(item)))
            yield item, Embedding(list(key(item)), wave(key(item)))


def streamed(source: Source) -> list[tuple[list[str], Embedding, np.ndarray]]:
    every = stream_with_static(
        source,  # type: ignore[arg-type]
        SENTENCES,
        words=lambda words: words,
        positions=lambda words: range(len(words)),
    )
    return list(every)


@pytest.mark.parametrize("context_free", [True, False])
def test_items_come_in_order_with_their_embeddings(context_free: bool):
    found = streamed(Source(context_free))
    assert [item for item, _, _ in found] == SENTENCES
    for words, embedding, static in found:
        np.testing.assert_array_equal(embedding.layers, wave(words))
        assert static.shape == (len(words), 8)


def test_a_context_free_layer_0_is_taken_as_it_is():
    source = Source(context_free=True)
    for words, _, static in streamed(source):
        np.testing.assert_array_equal(static, wave(words)[0])
    assert source.asked == SENTENCES


def test_elsewhere_each_word_is_embedded_alone_once():
    source = Source(context_free=False)
    for words, _, static in streamed(source):
        alone = [wave([word])[0, 0] for word in words]
        np.testing.assert_array_equal(static, np.reshape(alone, (len(words), 8)))
    assert [words for words in source.asked if words not in SENTENCES] == [["the"], ["bank"], ["a"]]
