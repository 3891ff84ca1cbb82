"""The one writer. A new segment does not exist until the manifest names it: if the writer is
stopped, the index is as the last commit left it.
"""

# K kept layers, m uses of a sentence, D vector dim
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmore.embedding import Vectors
from elmore.files.atomic import atomic_file, remove
from elmore.files.lock import Lock
from elmore.search.checked_files import file_state, map_file
from elmore.search.manifest import (
    VERSION,
    Manifest,
    SegmentState,
    read_manifest,
    write_manifest,
)
from elmore.search.origins import PendingOrigins, TextPlace
from elmore.search.sampling import COUNTS, WORDS
from elmore.search.segment import Segment, Table, deleted_name, write_segment
from elmore.search.vector_space import CENTER
from elmore.store.layout import FileState
from elmore.store.precision import Codec
from elmore.store.words import Keys
from elmore.store.writer import UNFINISHED

OURS = ("segment-*", "approximate-*", UNFINISHED)


class Pending:
    """Uses that will become a segment."""

    def __init__(self, codec: Codec, key: Callable[[bytes], int]):
        self._codec, self._key = codec, key
        self.n_bytes = 0
        self._texts: list[bytes] = []
        self._words: list[str] = []
        self._sentence: list[int] = []
        self._position: list[int] = []
        self._vectors: list[Vectors] = []
        self._static: dict[str, Vectors] = {}
        self._origins = PendingOrigins()

    def __len__(self) -> int:
        """The number of uses."""
        return len(self._words)

    def add(
        self,
        words: Sequence[str],
        packed: bytes,
        positions: Sequence[int],
        vectors: Vectors,
        static: Vectors,
        place: TextPlace | None,
    ) -> None:
        """The uses of a sentence: their kept layers, (K, m, D), and without context, (m, D)."""
        for position, vector in zip(positions, static, strict=True):
            word = words[position]
            if word not in self._static:
                self._static[word] = vector.astype(np.float16)
            self._words.append(word)
        self._sentence += [len(self._texts)] * len(positions)
        self._position += positions
        self._texts.append(packed)
        self._vectors.append(vectors)
        self.n_bytes += vectors.nbytes + len(packed) + self._origins.add(place)

    def write(self, target: Path) -> SegmentState:
        words = sorted(self._static)
        number = {word: i for i, word in enumerate(words)}
        word = np.array([number[word] for word in self._words], np.int64)
        order = np.argsort(word, kind="stable")
        vectors = np.concatenate(self._vectors, axis=1)[:, order]  # (K, n, D)
        table = Table(
            words=words,
            word=word[order],
            sentence=np.array(self._sentence, np.int64)[order],
            position=np.array(self._position, np.int64)[order],
            keys=np.array([self._key(text) for text in self._texts], np.uint64),
            static=np.stack([self._static[word] for word in words]),
            origins=self._origins.table(),
        )
        block = self._codec.stored(self._codec.encode(vectors), 0, len(word))
        return write_segment(target, table, self._texts, [block])


class IndexWriter:
    """Holds the lock until its block ends."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._lock = Lock(folder)
        try:
            self.manifest = read_manifest(folder)
            self._sweep()
        except BaseException:
            self._lock.release()
            raise
        self.keys = Keys(self.manifest.fingerprint)

    def __enter__(self) -> "IndexWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def segments(self) -> list[Segment]:
        return open_segments(self.folder, self.manifest)

    def pending(self) -> Pending:
        return Pending(self.manifest.codec, self.key)

    def key(self, packed: bytes) -> int:
        """The short hash of a sentence in a segment; the text itself is always compared too."""
        return int.from_bytes(self.keys.of(packed)[:8], "little")

    def next_segment(self) -> Path:
        return self.folder / f"segment-{self.manifest.next_segment:05}"

    def commit(self, **changes: Any) -> None:
        """Change the manifest; folders that it no longer names are removed. An open reader keeps
        what it has mapped."""
        if self.manifest.version < VERSION:
            changes = {**_newer(self.folder, self.manifest), **changes}
        self.manifest = self.manifest.model_copy(update=changes)
        write_manifest(self.folder, self.manifest)
        self._sweep()

    def add(self, pending: Pending, **changes: Any) -> None:
        """Write these uses and commit them."""
        if len(pending):
            state = pending.write(self.next_segment())
            changes["segments"] = (*self.manifest.segments, state)
            changes["next_segment"] = self.manifest.next_segment + 1
        if changes:
            self.commit(**changes)

    def delete(self, number: int, sentences: Sequence[int]) -> None:
        """Delete sentences of the segment with this number, in addition to earlier ones."""
        segment = self.segments()[number]
        before = [] if segment.live is None else np.flatnonzero(~segment.live).tolist()
        data = np.array(sorted({*before, *sentences}), np.int64).tobytes()
        generation = {"deleted": segment.state.deleted + 1, "deletions": file_state(data)}
        state = segment.state.model_copy(update=generation)
        with atomic_file(self.folder / deleted_name(state)) as path:
            path.write_bytes(data)
        states = list(self.manifest.segments)
        states[number] = state
        self.commit(segments=tuple(states))

    def _sweep(self) -> None:
        """Remove what an interrupted writer has left, and what is no longer needed."""
        states = self.manifest.segments
        known = {state.name for state in states} | {deleted_name(state) for state in states}
        known.add(self.manifest.approximate or "")
        for pattern in OURS:
            for path in self.folder.glob(pattern):
                if path.name not in known:
                    remove(path)


def small_files(folder: Path) -> dict[str, FileState]:
    """The files beside the segments as they are now."""
    return {name: file_state(map_file(folder / name, None)) for name in (WORDS, COUNTS, CENTER)}


def _newer(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """What an earlier version did not have. Segments of version 2 get their checksums when they are
    merged."""
    if manifest.version > 2:
        return {"version": VERSION}
    finished = manifest.reading.complete
    return {"version": VERSION, "files": small_files(folder), "finished": finished}


def open_segments(folder: Path, manifest: Manifest) -> list[Segment]:
    codec = manifest.codec
    return [Segment(folder, state, codec, manifest.dim) for state in manifest.segments]
