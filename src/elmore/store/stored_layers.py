"""A store as a layer source: the vectors of its sentences, without a model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from elmore.embedder import words_alone
from elmore.embedding import Sentence, Vectors
from elmore.store.store import Store


class StoredLayers:
    """Replaces a model where only sentences of this store are read; others are an error."""

    def __init__(self, store: Store):
        self.store = store
        self.n_layers, self.dim = store.n_layers, store.dim
        self.fingerprint, self.context_free = store.vectors_fingerprint, store.context_free

    def static(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """By words that are in the store as sentences of their own, (n, D)."""
        return words_alone(self.stream, texts)

    def stream(
        self, items: Iterable[Any], *, key: Callable[[Any], Sentence] | None = None
    ) -> Iterator[Any]:
        """In input order."""
        for item in items:
            yield self.store[item] if key is None else (item, self.store[key(item)])
