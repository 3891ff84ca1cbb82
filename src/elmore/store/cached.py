"""A store in the place of a model: alone, or with a model that computes what is missing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from elmore.embedder import Embedder, Streams, words_alone
from elmore.embedding import Embedding, ReadSentence, Sentence, Vectors
from elmore.errors import ConfigError
from elmore.files.atomic import ReadOnlyError
from elmore.files.lock import BusyError
from elmore.store.keep import keep_of
from elmore.store.store import Store
from elmore.store.words import PackedSentence, pack
from elmore.text.batching import BATCH_WORDS

_WINDOW_WORDS = 8 * BATCH_WORDS


class CachedEmbedder(Streams):
    """Can replace an `Embedder`. Its vectors are those of the store, with the layers and the
    precision that the store keeps, also when they have just been computed. The new sentences of a
    window are added to the store together; if the store is read-only, or another process is
    writing to it, new vectors are returned but not stored."""

    def __init__(self, embedder: Embedder, store: Store):
        store.check_model(embedder)
        self.embedder, self.store = embedder, store
        self.n_layers, self.dim = store.n_layers, store.dim
        self.fingerprint, self.context_free = store.vectors_fingerprint, store.context_free
        complete = keep_of("all", embedder.n_layers)
        self.lens = embedder.lens if store.keep == complete else None

    def __repr__(self) -> str:
        return f"<CachedEmbedder of {self.embedder!r} in {str(self.store.path)!r}>"

    @property
    def precision(self) -> str:
        """Of the model, not of the store."""
        return self.embedder.precision

    def stateful(self) -> NoReturn:
        raise ConfigError(
            "Vectors that depend on earlier sentences cannot be stored; use the model's own "
            "embedder for a stateful run."
        )

    def static(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """The model's, as if they were layers of this store."""
        vectors = self.embedder.static(texts)  # (n, D)
        layers = np.broadcast_to(vectors, (self.embedder.n_layers, *vectors.shape))
        alike = Embedding([""] * len(texts), layers, lens=self.embedder.lens)
        stored: Vectors = self.store.as_stored(alike).layers[0]
        return stored

    def window_words(self, batch_words: int) -> int:
        return _WINDOW_WORDS

    def _embed_window(self, sentences: list[ReadSentence], batch_words: int) -> list[Embedding]:
        asked = [PackedSentence(s.words, pack(s.words), s.spans) for s in sentences]
        found = [self.store.layers(read) for read in asked]
        pairs = list(zip(asked, found, strict=True))
        new = self._compute({r.packed: r.words for r, hit in pairs if hit is None}, batch_words)
        lens = self.lens
        return [
            Embedding(read.words, new[read.packed].copy() if hit is None else hit, read.spans, lens)
            for read, hit in pairs
        ]

    def _compute(self, missing: dict[bytes, list[str]], batch_words: int) -> dict[bytes, Vectors]:
        """The vectors as the store returns them from now on."""
        if not missing:
            return {}
        new = self.embedder.embed(list(missing.values()), batch_words=batch_words)
        with suppress(BusyError, ReadOnlyError):
            self.store.add(new)
        kept = (self.store.as_stored(embedding).layers for embedding in new)
        return dict(zip(missing, kept, strict=True))


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
