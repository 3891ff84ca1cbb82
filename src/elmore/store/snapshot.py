"""A store as it was at one moment, mapped into memory for readers. Opening takes the same time for
ten sentences and for ten million.
"""

# K kept layers, n words, D vector dim
import mmap
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from elmore.embedding import Embedding
from elmore.errors import FormatError
from elmore.store import hash_table
from elmore.store.keep import KeepProjection, Projection
from elmore.store.layout import (
    PROJECTION,
    RECORD_BYTES,
    RECORDS,
    WORDS,
    FileState,
    Manifest,
    Record,
    index_name,
    is_sound,
    read_manifest,
    read_record,
    shard_name,
)
from elmore.store.precision import Stored, as_tensor
from elmore.store.words import Keys, shown, unpack

_ATTEMPTS = 10


class Shard(NamedTuple):
    """A file of vectors in memory, as bytes and as a tensor of the same bytes."""

    data: Any
    tensor: Tensor


class Snapshot:
    """The sentences of one manifest."""

    def __init__(self, folder: Path, manifest: Manifest, table: Any):
        self.folder, self.manifest, self.table = folder, manifest, table
        self.codec = manifest.codec
        self.keys = Keys(manifest.fingerprint)
        self.records = mapped(folder / RECORDS, manifest.records.bytes)
        self.text = mapped(folder / WORDS, manifest.text.bytes)
        self.n_records = min(manifest.sentences, len(self.records) // RECORD_BYTES)
        """Sentences that have a record; if the file is truncated, fewer than in the manifest."""
        self._shards: dict[int, Shard] = {}

    @classmethod
    def open(cls, folder: Path) -> "Snapshot":
        """Retried, because a writer may replace the index in the meantime."""
        for _ in range(_ATTEMPTS):
            manifest = read_manifest(folder)
            table = _table(folder, manifest.index)
            if table is not None:
                return cls(folder, manifest, table)
            if read_manifest(folder) == manifest:
                break
        # The index is lost: build it in memory. A writer will write it.
        snapshot = cls(folder, read_manifest(folder), None)
        snapshot.table = hash_table.build(snapshot.records, snapshot.n_records).data
        return snapshot

    @cached_property
    def projection(self) -> Projection | None:
        keep = self.manifest.keep
        if not isinstance(keep, KeepProjection):
            return None
        return Projection.load(self.folder / PROJECTION, keep.sha256, keep.explained)

    def find(self, key: bytes) -> int | None:
        return hash_table.find(self.table, self.records, self.n_records, key)

    def lookup(self, packed: bytes) -> Record | None:
        """The record of a packed sentence."""
        number = self.find(self.keys.of(packed))
        if number is None:
            return None
        record = self.record(number)
        if not is_sound(self.records, number):
            raise self._damaged(RECORDS, packed, "its record has changed")
        if self.packed(record) != packed:
            raise self._damaged(WORDS, packed, "its words have changed")
        return record

    def record(self, number: int) -> Record:
        return read_record(self.records, number)

    def packed(self, record: Record) -> bytes:
        data: bytes = self.text[record.text_offset : record.text_offset + record.text_bytes]
        return data

    def block(self, record: Record) -> Tensor:
        """The bytes of a sentence's vectors, not copied."""
        end = record.offset + self.codec.n_bytes(record.n_words)
        return self._shard(record, end).tensor[record.offset : end]

    def stored(self, record: Record) -> Stored:
        """The numbers of a sentence's vectors, not copied."""
        end = record.offset + self.codec.n_bytes(record.n_words)
        return self.codec.stored(self._shard(record, end).data, record.offset, record.n_words)

    def vectors(self, record: Record) -> Tensor:
        return self.codec.decode(self.block(record), record.n_words)  # (K, n, D)

    def embedding(self, record: Record) -> Embedding:
        return Embedding(unpack(self.packed(record)), self.vectors(record).numpy())

    def _shard(self, record: Record, end: int) -> Shard:
        """The record's shard, mapped at first use; it must have at least `end` bytes."""
        shard = self._shards.get(record.shard)
        if shard is None:
            name = shard_name(record.shard)
            state = self.manifest.files.get(name, FileState())
            data = mapped(self.folder / name, state.bytes)
            shard = self._shards[record.shard] = Shard(data, as_tensor(data))
        if end > len(shard.data):
            name = shard_name(record.shard)
            raise self._damaged(name, self.packed(record), "its vectors are after the file's end")
        return shard

    def _damaged(self, file: str, packed: bytes, what: str) -> FormatError:
        return FormatError(
            f"{self.folder / file}: {shown(unpack(packed))}: {what}. The file is damaged; "
            f"`elmore store verify {self.folder}` lists all damage."
        )


def mapped(path: Path, n_bytes: int) -> Any:
    """The first `n_bytes` of a file; fewer if it is truncated, none if it is missing."""
    try:
        with path.open("rb") as file:
            size = min(n_bytes, file.seek(0, 2))
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _table(folder: Path, generation: int) -> Any | None:
    """The slots; each is read from the file when it is used."""
    data = mapped(folder / index_name(generation), 1 << 62)
    n_slots = len(data) // hash_table.SLOT_BYTES
    if n_slots < 2 or n_slots & (n_slots - 1) or len(data) % hash_table.SLOT_BYTES:
        return None
    return memoryview(data).cast("Q")
