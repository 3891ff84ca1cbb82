"""An embedder with a memory on disk: what the store has is read, the rest is computed and added."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn, overload

from elmore.embedder import BATCH_WORDS, Embedder, Item, in_windows
from elmore.embedding import Embedding, ReadSentence, Sentence, Vectors, read_sentences
from elmore.errors import ConfigError
from elmore.files.atomic import ReadOnlyError
from elmore.files.lock import BusyError
from elmore.store.store import Store
from elmore.store.words import PackedSentence, pack

_WINDOW_WORDS = 8 * BATCH_WORDS
_WINDOW_SENTENCES = 4096


class CachedEmbedder:
    """Stands wherever an `Embedder` does. Its vectors are the store's: the layers kept, at the
    precision kept, the first time as well as the second."""

    def __init__(self, embedder: Embedder, store: Store):
        store.check_model(embedder)
        self.embedder, self.store = embedder, store

    def __repr__(self) -> str:
        return f"<CachedEmbedder of {self.embedder!r} in {str(self.store.path)!r}>"

    @property
    def precision(self) -> str:
        """Of the model, not of the store."""
        return self.embedder.precision

    @property
    def dim(self) -> int:
        return self.store.dim

    @property
    def n_layers(self) -> int:
        return self.store.n_layers

    @property
    def fingerprint(self) -> str:
        return self.store.vectors_fingerprint

    @property
    def context_free(self) -> bool:
        return self.store.context_free

    def embed(
        self, sentences: Sequence[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> list[Embedding]:
        """As `Embedder.embed`. While another process writes to the store, or where it may only be
        read, new vectors are given but not kept."""
        return self._embed(list(read_sentences(sentences)), batch_words)

    @overload
    def stream(
        self, items: Iterable[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> Iterator[Embedding]: ...

    @overload
    def stream(
        self,
        items: Iterable[Item],
        *,
        key: Callable[[Item], Sentence],
        batch_words: int = BATCH_WORDS,
    ) -> Iterator[tuple[Item, Embedding]]: ...

    def stream(
        self,
        items: Iterable[Any],
        *,
        key: Callable[[Any], Sentence] | None = None,
        batch_words: int = BATCH_WORDS,
    ) -> Iterator[Any]:
        """As `Embedder.stream`; what is new in a window is added to the store together."""
        return in_windows(
            items,
            key,
            lambda sentences: self._embed(sentences, batch_words),
            _WINDOW_WORDS,
            _WINDOW_SENTENCES,
        )

    def stateful(self) -> NoReturn:
        raise ConfigError(
            "Vectors that depend on what was read before cannot be stored; use the model's own "
            "embedder for a stateful run."
        )

    def _embed(self, sentences: list[ReadSentence], batch_words: int) -> list[Embedding]:
        asked = [PackedSentence(s.words, pack(s.words), s.spans) for s in sentences]
        found = [self.store.layers(read) for read in asked]
        pairs = list(zip(asked, found, strict=True))
        new = self._compute({r.packed: r.words for r, hit in pairs if hit is None}, batch_words)
        return [
            Embedding(read.words, new[read.packed].copy() if hit is None else hit, read.spans)
            for read, hit in pairs
        ]

    def _compute(self, missing: dict[bytes, list[str]], batch_words: int) -> dict[bytes, Vectors]:
        """As the store gives them back from now on."""
        if not missing:
            return {}
        new = self.embedder.embed(list(missing.values()), batch_words=batch_words)
        with suppress(BusyError, ReadOnlyError):
            self.store.add(new)
        kept = (self.store.as_stored(embedding).layers for embedding in new)
        return dict(zip(missing, kept, strict=True))
