"""Sentences into a store: each distinct one computed and written once, committed as it goes."""

# K kept layers, n words, D vector dim
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

from elmore.embedder import LayerSource
from elmore.embedding import Embedding, Sentence, Vectors
from elmore.errors import InputError
from elmore.files.stop_signals import StopSignals
from elmore.store.keep import select
from elmore.store.precision import as_tensor
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
    """How far a filling has come."""

    read: int = 0
    """Sentences seen, the repeated ones too."""
    added: int = 0
    added_words: int = 0
    seconds: float = 0.0

    @property
    def repeated(self) -> int:
        """Sentences that were there already, once the filling has ended."""
        return self.read - self.added


FillWatch = Callable[[FillProgress], None]


def encoded(snapshot: Snapshot, layers: Vectors) -> bytes:
    """A model's layers as the block this store keeps of them."""
    manifest = snapshot.manifest
    if layers.shape[::2] != (manifest.n_layers, manifest.dim):
        raise InputError(
            f"Vectors of {layers.shape[0]} layers × {layers.shape[2]} were given to a store of a "
            f"model with {manifest.n_layers} × {manifest.dim}."
        )
    kept = select(manifest.keep, layers, snapshot.projection)  # (K, n, D)
    return snapshot.codec.encode(kept)


def as_stored(snapshot: Snapshot, embedding: Embedding) -> Embedding:
    """A fresh embedding as it would come back from this store."""
    block = as_tensor(bytearray(encoded(snapshot, embedding.layers)))
    vectors = snapshot.codec.decode(block, len(embedding.words)).numpy()  # (K, n, D)
    return Embedding(embedding.words, vectors, embedding.spans)


def fill(
    writer: StoreWriter, source: LayerSource, sentences: Iterable[Sentence], watch: FillWatch
) -> None:
    """Embed and add what is missing. An interruption keeps everything computed before it."""
    progress, begin = FillProgress(), monotonic()
    missing = _missing(writer, sentences, progress)
    stream = source.stream(missing, key=lambda read: read.words)
    with StopSignals() as stop:
        filling = _Filling(writer, progress, begin, watch)
        while True:
            try:
                with stop.allowed():
                    found = next(stream, None)
            except BaseException as error:
                filling.commit()
                if progress.added:
                    error.add_note(
                        f"{progress.added:,} sentences were added and are kept: run it again to "
                        "go on."
                    )
                raise
            if found is None:
                break
            filling.add(*found)
        filling.commit()


class _Filling:
    """Adds and commits, not too seldom."""

    def __init__(self, writer: StoreWriter, progress: FillProgress, begin: float, watch: FillWatch):
        self.writer, self.progress, self.begin, self.watch = writer, progress, begin, watch
        self.last = self.shown = begin

    def add(self, read: PackedSentence, embedding: Embedding) -> None:
        snapshot, n_words = self.writer.snapshot, len(read.words)
        block = encoded(snapshot, embedding.layers)
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
    """Enough waits to be committed: what waits is held in memory and is what a kill would lose."""
    return writer.waiting_bytes >= COMMIT_BYTES or len(writer.waiting) >= COMMIT_SENTENCES


def _missing(
    writer: StoreWriter, sentences: Iterable[Sentence], progress: FillProgress
) -> Iterator[PackedSentence]:
    """What has to be computed. The embedder reads ahead of what it gives back, so what was handed
    to it and is not stored yet is remembered here."""
    keys, ahead = writer.snapshot.keys, dict[bytes, None]()
    for read in packed_sentences(sentences):
        progress.read += 1
        key = keys.of(read.packed)
        if key in ahead or writer.has(key):
            continue
        ahead[key] = None
        yield read
        if len(ahead) > _AHEAD:
            _forget(ahead, writer)


def _forget(ahead: dict[bytes, None], writer: StoreWriter) -> None:
    """Those that have arrived meanwhile."""
    for key in [key for key in ahead if writer.has(key)]:
        del ahead[key]
