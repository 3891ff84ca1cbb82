"""Fill a store: each distinct sentence is computed and written once, with regular commits."""

# K kept layers, n words, D vector dim
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

from elmore.embedder import LayerSource
from elmore.embedding import Embedding, Sentence
from elmore.errors import InputError
from elmore.files.stop_signals import StopSignals
from elmore.store.keep import select
from elmore.store.snapshot import Snapshot
from elmore.store.words import PackedSentence, packed_sentences
from elmore.store.writer import StoreWriter

COMMIT_BYTES = 64_000_000
COMMIT_SENTENCES = 100_000
COMMIT_SECONDS = 30.0
_SHOW_SECONDS = 0.2
_AHEAD = 2 * COMMIT_SENTENCES


@dataclass(slots=True)
class FillProgress:
    """The progress of filling a store."""

    read: int = 0
    """Sentences read, including repeated ones."""
    added: int = 0
    added_words: int = 0
    seconds: float = 0.0

    @property
    def repeated(self) -> int:
        """Sentences that were in the store already; final when the work has ended."""
        return self.read - self.added


FillWatch = Callable[[FillProgress], None]


def encoded(snapshot: Snapshot, embedding: Embedding) -> bytes:
    """A model's layers as the block of bytes that this store keeps."""
    manifest, layers = snapshot.manifest, embedding.layers
    if layers.shape[::2] != (manifest.n_layers, manifest.dim):
        raise InputError(
            f"The vectors have {layers.shape[0]} layers × {layers.shape[2]}, but the store's model "
            f"has {manifest.n_layers} × {manifest.dim}."
        )
    kept = select(manifest.keep, embedding, snapshot.projection)  # (K, n, D)
    return snapshot.codec.encode(kept)


def fill(
    writer: StoreWriter, source: LayerSource, sentences: Iterable[Sentence], watch: FillWatch
) -> FillProgress:
    """Embed and add what is missing. If interrupted, everything computed before is kept."""
    filling = _Filling(writer, watch)
    progress = filling.progress
    stream = source.stream(filling.missing(sentences), key=lambda read: read.words)
    with StopSignals() as stop:
        while True:
            try:
                with stop.allowed():
                    found = next(stream, None)
            except BaseException as error:
                filling.commit()
                if progress.added:
                    error.add_note(
                        f"{progress.added:,} sentences were added; run it again to continue."
                    )
                raise
            if found is None:
                break
            filling.add(*found)
        filling.commit()
    return progress


class _Filling:
    """Adds sentences, commits regularly and reports the progress."""

    def __init__(self, writer: StoreWriter, watch: FillWatch):
        self.writer, self.watch, self.progress = writer, watch, FillProgress()
        self.begin = self.last = self.shown = monotonic()

    def missing(self, sentences: Iterable[Sentence]) -> Iterator[PackedSentence]:
        """What has to be computed. The embedder reads ahead of what it returns, so the keys that
        it has been given and that are not stored yet are remembered here."""
        writer, ahead = self.writer, dict[bytes, None]()
        for read in packed_sentences(sentences):
            self.progress.read += 1
            key = writer.snapshot.keys.of(read.packed)
            if key in ahead or writer.has(key):
                continue
            ahead[key] = None
            yield read
            if len(ahead) > _AHEAD:
                ahead = {key: None for key in ahead if not writer.has(key)}

    def add(self, read: PackedSentence, embedding: Embedding) -> None:
        snapshot, n_words = self.writer.snapshot, len(read.words)
        block = encoded(snapshot, embedding)
        self.writer.add(snapshot.keys.of(read.packed), read.packed, n_words, block)
        self.progress.added += 1
        self.progress.added_words += n_words
        if is_due(self.writer) or monotonic() - self.last > COMMIT_SECONDS:
            self.commit()
        elif monotonic() - self.shown > _SHOW_SECONDS:
            self._show()

    def commit(self) -> None:
        self.writer.commit()
        self.last = monotonic()
        self._show()

    def _show(self) -> None:
        self.shown = monotonic()
        self.progress.seconds = self.shown - self.begin
        self.watch(self.progress)


def is_due(writer: StoreWriter) -> bool:
    """Time to commit: what is not committed is in memory and would be lost by a kill."""
    return writer.waiting_bytes >= COMMIT_BYTES or len(writer.waiting) >= COMMIT_SENTENCES
