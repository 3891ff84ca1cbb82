"""A store as a layer source: the vectors of sentences it has, without a model."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from elmore.embedding import Sentence
from elmore.store.store import Store


class StoredLayers:
    """Stands wherever a model does that only reads sentences of this store; others are an error."""

    def __init__(self, store: Store):
        self.store = store

    @property
    def n_layers(self) -> int:
        return self.store.n_layers

    @property
    def dim(self) -> int:
        return self.store.dim

    @property
    def fingerprint(self) -> str:
        return self.store.vectors_fingerprint

    @property
    def context_free(self) -> bool:
        return self.store.context_free

    def stream(
        self, items: Iterable[Any], *, key: Callable[[Any], Sentence] | None = None
    ) -> Iterator[Any]:
        """In input order."""
        for item in items:
            yield self.store[item] if key is None else (item, self.store[key(item)])
