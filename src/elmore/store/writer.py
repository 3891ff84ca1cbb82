"""The one writer. Sentences are appended to files; readers ignore everything after the size in the
manifest. A commit syncs the files to disk and then replaces the manifest. After a kill, a power cut
or a full disk, the store is as the last commit left it.
"""

import os
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import numpy as np

from elmore.errors import FormatError
from elmore.files.atomic import atomic_file, atomic_folder, remove, sync, writing
from elmore.files.lock import Lock
from elmore.store import hash_table
from elmore.store.keep import KeepProjection, Projection
from elmore.store.layout import (
    INDEXES,
    PROJECTION,
    RECORDS,
    SHARDS,
    WORDS,
    FileState,
    Manifest,
    Record,
    index_name,
    read_manifest,
    shard_name,
    write_manifest,
)
from elmore.store.snapshot import Snapshot, mapped

SHARD_BYTES = 1 << 30
"""The largest size of a shard, unless one sentence is larger."""
_BUFFER_BYTES = 1 << 20
UNFINISHED = ".*.elmore-tmp"


class AppendFile:
    """A file that only grows; its size and checksum are always known."""

    def __init__(self, path: Path, committed: FileState):
        self.path = path
        self.bytes, self._crc32 = committed.bytes, committed.crc32
        self._waiting = bytearray()
        size = path.stat().st_size if path.exists() else 0
        if size < committed.bytes:
            raise FormatError(
                f"{path}: truncated, {size:,} bytes of {committed.bytes:,} are left. Copy the "
                "intact sentences with `elmore store merge`, and fill the copy."
            )
        self._file: IO[bytes] = path.open("ab", buffering=0)

    @property
    def state(self) -> FileState:
        assert not self._waiting
        return FileState(bytes=self.bytes, crc32=self._crc32)

    def append(self, data: bytes) -> None:
        self._waiting += data
        self.bytes += len(data)
        if len(self._waiting) >= _BUFFER_BYTES:
            self._write()

    def sync(self) -> None:
        """Write everything to the disk."""
        self._write()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _write(self) -> None:
        self._crc32 = zlib.crc32(self._waiting, self._crc32)
        data = memoryview(self._waiting)
        done = 0
        while done < len(data):
            done += self._file.write(data[done:]) or 0
        data.release()
        self._waiting = bytearray()


class StoreWriter:
    """Holds the lock until `close`; after an error it can only be closed."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._lock = Lock(folder)
        try:
            with writing(folder), ExitStack() as opened:
                self._start(opened)
                opened.pop_all()  # from here on `close` closes them
        except BaseException:
            self._lock.release()
            raise

    def _start(self, opened: ExitStack) -> None:
        self.snapshot = Snapshot.open(self.folder)
        manifest = self.manifest = self.snapshot.manifest
        _trim(self.folder, manifest)
        self._records = AppendFile(self.folder / RECORDS, manifest.records)
        opened.callback(self._records.close)
        self._text = AppendFile(self.folder / WORDS, manifest.text)
        opened.callback(self._text.close)
        self._full = list(manifest.shards[:-1])
        self._shard = self._open_shard(manifest.shards[-1] if manifest.shards else FileState())
        opened.callback(self._shard.close)
        if not hash_table.finds_all(
            self.snapshot.table, self.snapshot.records, self.snapshot.n_records
        ):
            index = self._new_index(self.snapshot.n_records)  # else sentences would be added twice
            self._replace_manifest(manifest.model_copy(update={"index": index}))
        self._occupied = int(np.count_nonzero(np.frombuffer(self.snapshot.table, np.uint64)))
        self._keys: list[bytes] = []
        self.waiting: set[bytes] = set()
        """Keys of the sentences added since the last commit."""
        self.waiting_bytes = 0
        self._words = manifest.words

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def has(self, key: bytes) -> bool:
        return key in self.waiting or self.snapshot.find(key) is not None

    def add(self, key: bytes, packed: bytes, n_words: int, block: bytes) -> None:
        """Append a new sentence; it exists from the next commit on."""
        with writing(self.folder):
            if self._shard.bytes and self._shard.bytes + len(block) > SHARD_BYTES:
                self._shard.sync()
                self._full.append(self._shard.state)
                self._shard.close()
                self._shard = self._open_shard(FileState())
            record = Record(
                key=key,
                offset=self._shard.bytes,
                text_offset=self._text.bytes,
                shard=len(self._full),
                n_words=n_words,
                text_bytes=len(packed),
                vectors_crc=zlib.crc32(block),
                text_crc=zlib.crc32(packed),
            )
            self._shard.append(block)
            self._text.append(packed)
            self._records.append(record.pack())
        self._keys.append(key)
        self.waiting.add(key)
        self.waiting_bytes += len(block) + len(packed)
        self._words += n_words

    def commit(self) -> None:
        """Make everything added so far exist."""
        if not self._keys:
            return
        with writing(self.folder):
            for file in (self._shard, self._text, self._records):
                file.sync()
            sync(self.folder)  # the names of new shards
            before = self.manifest
            manifest = before.model_copy(
                update={
                    "sentences": before.sentences + len(self._keys),
                    "words": self._words,
                    "shards": (*self._full, self._shard.state),
                    "records": self._records.state,
                    "text": self._text.state,
                    "index": self._write_index(),
                }
            )
            self._replace_manifest(manifest)
        self._occupied += len(self._keys)
        self._keys, self.waiting, self.waiting_bytes = [], set(), 0

    def close(self) -> None:
        """Release the lock; what was not committed is removed from the disk."""
        for file in (self._shard, self._text, self._records):
            file.close()
        try:
            with suppress(OSError):  # the next writer does it
                _trim(self.folder, read_manifest(self.folder))
        finally:
            self._lock.release()

    def _write_index(self) -> int:
        """Add the new keys to the index, or build a new index if it is too full or lost. Returns
        the generation of the current index."""
        generation, first = self.manifest.index, self.manifest.sentences
        table = self.snapshot.table
        path = self.folder / index_name(generation)
        sound = path.exists() and path.stat().st_size == len(table) * hash_table.SLOT_BYTES
        if sound and hash_table.slots_for(self._occupied + len(self._keys)) <= len(table):
            hash_table.insert(path, table, self._keys, first)
            return generation
        self._occupied = first
        return self._new_index(first + len(self._keys))

    def _new_index(self, n_records: int) -> int:
        """Build the index from the records. Returns its generation."""
        generation = self.manifest.index + 1
        records = mapped(self._records.path, self._records.bytes)
        with atomic_file(self.folder / index_name(generation)) as beside:
            beside.write_bytes(hash_table.build(records, n_records).data)
        return generation

    def _replace_manifest(self, manifest: Manifest) -> None:
        write_manifest(self.folder, manifest)
        if manifest.index != self.manifest.index:
            remove(self.folder / index_name(self.manifest.index))
        self.manifest, self.snapshot = manifest, Snapshot.open(self.folder)

    def _open_shard(self, committed: FileState) -> AppendFile:
        return AppendFile(self.folder / shard_name(len(self._full)), committed)


def _trim(folder: Path, manifest: Manifest) -> None:
    """Remove what the manifest does not cover: a writer was stopped while it wrote that."""
    for name, state in manifest.files.items():
        path = folder / name
        if path.exists() and path.stat().st_size > state.bytes:
            os.truncate(path, state.bytes)
    known = {*manifest.files, index_name(manifest.index)}
    for pattern in (SHARDS, INDEXES, UNFINISHED):
        for path in folder.glob(pattern):
            if path.name not in known:
                remove(path)


def create_folder(folder: Path, manifest: Manifest, projection: Projection | None) -> None:
    """A store without sentences."""
    with atomic_folder(folder) as beside:
        if projection is not None:
            assert isinstance(manifest.keep, KeepProjection)
            keep = manifest.keep.model_copy(update={"sha256": projection.save(beside / PROJECTION)})
            manifest = manifest.model_copy(update={"keep": keep})
        for name in (RECORDS, WORDS):
            (beside / name).touch()
        (beside / index_name(0)).write_bytes(hash_table.build(b"", 0).data)
        write_manifest(beside, manifest)
