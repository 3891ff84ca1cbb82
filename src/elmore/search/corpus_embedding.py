"""Sentences become uses in an index: the second reading of a corpus, and sentences that are added
later. Regular commits let stopped work continue.
"""

# K kept layers, m uses of a sentence, D vector dim
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np

from elmore.embedder import LayerSource
from elmore.embedding import Embedding, Sentence, Vectors
from elmore.errors import InputError
from elmore.files.stop_signals import StopSignals
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import Reading
from elmore.search.origins import TextPlace
from elmore.search.sampling import ListedWords, UsePlan, pieces
from elmore.search.vector_space import read_vector_space
from elmore.uses.use_vectors import stream_with_static

COMMIT_BYTES = 128_000_000
"""The most vectors in memory; a kill would lose them."""
COMMIT_SECONDS = 60.0
_SHOW_SECONDS = 0.2
_NO_KEYS = np.zeros(0, np.uint64)


@dataclass(slots=True)
class BuildProgress:
    """The progress of a build."""

    stage: str = "counting"
    """counting, embedding, grouping, and then approximating"""
    read: int = 0
    """Sentences read."""
    sentences: int = 0
    """Sentences of the corpus, once they are counted."""
    words: int = 0
    """Embedded in this run."""
    uses: int = 0
    """Kept in this run."""
    seconds: float = 0.0


BuildWatch = Callable[[BuildProgress], None]


class BuildReport:
    """Reports the progress, at most five times per second."""

    def __init__(self, watch: BuildWatch = lambda _: None):
        self.now, self._watch = BuildProgress(), watch
        self._begin = self._shown = monotonic()

    def enter(self, stage: str) -> None:
        self.now.stage = stage
        self.show()

    def show_sometimes(self) -> None:
        if monotonic() - self._shown > _SHOW_SECONDS:
            self.show()

    def show(self) -> None:
        self._shown = monotonic()
        self.now.seconds = self._shown - self._begin
        self._watch(self.now)


class _Planned(NamedTuple):
    """A sentence with uses to keep."""

    words: list[str]
    packed: bytes
    positions: list[int]
    place: TextPlace | None
    """Where it stands."""
    reading: Reading
    """How far the corpus has been read once this sentence is in the index."""


_Embedded = tuple[_Planned, Embedding, Vectors]


class CorpusEmbedding:
    """Embeds the sentences that have uses to keep, and commits them."""

    def __init__(self, writer: IndexWriter, source: LayerSource, progress: BuildReport):
        self.writer, self.source, self.progress = writer, source, progress
        self.space = read_vector_space(writer.folder, writer.manifest)
        self.done = self.read = writer.manifest.reading
        self.pending, self.last = writer.pending(), monotonic()

    def build(self, corpus: Iterable[Sentence]) -> None:
        """The rest of the corpus, from where the last commit was."""
        self.progress.now.sentences = self.done.of
        with StopSignals() as stop:
            self._embed(self._planned(corpus), stop)
            self._commit(self.read.model_copy(update={"complete": True}))

    def add(self, sentences: Iterable[Sentence]) -> int:
        """Every use of indexed words in new sentences. Returns the number of new sentences."""
        with StopSignals() as stop:
            added = self._embed(self._new(sentences), stop)
            self._commit(self.done)
        return added

    def _embed(self, planned: Iterable[_Planned], stop: StopSignals) -> int:
        """The number of sentences; if it is stopped, what was computed is committed."""
        self.progress.enter("embedding")
        stream = stream_with_static(
            self.source,
            planned,
            words=lambda sentence: sentence.words,
            positions=lambda sentence: sentence.positions,
        )
        added = 0
        while (found := self._next(stream, stop)) is not None:
            self._take(*found)
            added += 1
        return added

    def _next(self, stream: Iterator[_Embedded], stop: StopSignals) -> _Embedded | None:
        try:
            with stop.allowed():
                return next(stream, None)
        except BaseException as error:
            self._commit(self.done)
            error.add_note("What was computed is kept: run it again to continue.")
            raise

    def _planned(self, corpus: Iterable[Sentence]) -> Iterator[_Planned]:
        manifest, before, crc = self.writer.manifest, self.done, 0
        plan = UsePlan(ListedWords(self.writer.folder, manifest).counts(), manifest.max_uses)
        for number, read in enumerate(pieces(corpus), start=1):
            crc = zlib.crc32(read.packed, crc)
            positions = plan.positions(read.words)
            self._show(number)
            if number <= before.sentences:
                continue
            self.read = before.model_copy(update={"sentences": number, "crc32": crc})
            if positions:
                yield _Planned(read.words, read.packed, positions, read.place, self.read)
        if before.whole_crc32 not in (None, crc):
            raise InputError(
                f"{self.writer.folder}: the corpus has changed since its words were counted; build "
                "the index again."
            )

    def _new(self, sentences: Iterable[Sentence]) -> Iterator[_Planned]:
        """Sentences that are not in the index, each once."""
        writer, given = self.writer, set[bytes]()
        segments, manifest = writer.segments(), writer.manifest
        keys = np.sort(np.concatenate([_NO_KEYS, *(segment.keys[:] for segment in segments)]))
        listed = {} if manifest.any_word else ListedWords(writer.folder, manifest).counts()
        for number, read in enumerate(pieces(sentences), start=1):
            self._show(number)
            digest, key = writer.keys.of(read.packed), writer.key(read.packed)
            place = keys.searchsorted(np.uint64(key))
            there = place < len(keys) and keys[place] == key  # then the text is compared
            if digest in given or (there and any(s.find(key, read.packed) for s in segments)):
                continue
            given.add(digest)
            every = manifest.any_word
            positions = [i for i, word in enumerate(read.words) if every or word in listed]
            if positions:
                yield _Planned(read.words, read.packed, positions, read.place, self.done)

    def _show(self, number: int) -> None:
        self.progress.now.read = number
        self.progress.show_sometimes()

    def _take(self, planned: _Planned, embedding: Embedding, static: Vectors) -> None:
        words, packed, positions, place, self.done = planned
        kept = self.space.kept(embedding.layers[:, positions], embedding.lens)  # (K, m, D)
        self.pending.add(words, packed, positions, kept, static, place)
        now = self.progress.now
        now.words += len(words)
        now.uses += len(positions)
        self.progress.show_sometimes()
        if self.pending.n_bytes >= COMMIT_BYTES or monotonic() - self.last > COMMIT_SECONDS:
            self._commit(self.done)

    def _commit(self, reading: Reading) -> None:
        if len(self.pending) or reading != self.writer.manifest.reading:
            self.writer.add(self.pending, reading=reading)
        self.pending, self.last = self.writer.pending(), monotonic()
