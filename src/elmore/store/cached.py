"""An embedder with a memory on disk: what the store has is read, the rest is computed and added."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from elmore.embedder import BATCH_WORDS, Embedder, Embedding, Sentence, Vectors
from elmore.errors import ConfigError
from elmore.files.atomic import ReadOnlyError
from elmore.files.lock import BusyError
from elmore.store.store import Store
from elmore.store.words import Read, read_all
from elmore.text.batching import windows

_WINDOW_WORDS = 8 * BATCH_WORDS
_WINDOW_SENTENCES = 4096


class CachedEmbedder(Embedder):
    """Stands wherever an `Embedder` does. Its vectors are the store's: the layers kept, at the
    precision kept, the first time as well as the second."""

    def __init__(self, embedder: Embedder, store: Store):
        store.check_model(embedder)
        vars(self).update(vars(embedder))  # its model, device and speller are this one's too
        self.embedder, self.store = embedder, store

    @property
    def dim(self) -> int:
        return self.store.dim

    @property
    def n_layers(self) -> int:
        return self.store.n_layers

    @property
    def fingerprint(self) -> str:
        return self.store.vectors_fingerprint

    def embed(
        self, sentences: Sequence[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> list[Embedding]:
        """As `Embedder.embed`. While somebody else writes to the store, or where it may only be
        read, new vectors are given but not kept."""
        return self._embed(list(read_all(sentences)), batch_words)

    def stream(
        self, sentences: Iterable[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> Iterator[Embedding]:
        """As `Embedder.stream`; what is new in a window is added to the store together."""
        sized = ((read, len(read.words)) for read in read_all(sentences))
        for window in windows(sized, _WINDOW_WORDS, _WINDOW_SENTENCES):
            yield from self._embed(window, batch_words)

    def stateful(self) -> NoReturn:
        raise ConfigError(
            "Vectors that depend on what was read before cannot be stored; use the model's own "
            "embedder for a stateful run."
        )

    def _embed(self, asked: list[Read], batch_words: int) -> list[Embedding]:
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
