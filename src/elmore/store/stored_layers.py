"""A store as a layer source: the vectors of its sentences, without a model."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from elmore.embedding import Sentence
from elmore.store.store import Store


class StoredLayers:
    """Replaces a model where only sentences of this store are read; others are an error."""

    def __init__(self, store: Store):
        self.store = store
        self.n_layers, self.dim = store.n_layers, store.dim
        self.fingerprint, self.context_free = store.vectors_fingerprint, store.context_free

    def stream(
        self, items: Iterable[Any], *, key: Callable[[Any], Sentence] | None = None
    ) -> Iterator[Any]:
        """In input order."""
        for item in items:
            yield self.store[item] if key is None else (item, self.store[key(item)])
