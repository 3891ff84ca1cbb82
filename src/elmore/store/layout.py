"""A store on disk: a folder of files that only grow, and a manifest with the valid size of each.
Bytes after that size come from a writer that was stopped; readers ignore them. The file of records
has one record of fixed size per sentence, in the order of storing.
"""

import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from elmore.config import Frozen
from elmore.files.checked import read_checked, write_checked
from elmore.store.keep import Keep
from elmore.store.precision import Codec, Precision

VERSION = 1
MANIFEST = "manifest.json"
RECORDS = "sentences.bin"
WORDS = "words.txt"
PROJECTION = "projection.npy"
SHARDS = "vectors-*.bin"
INDEXES = "index-*.bin"

_FIELDS = struct.Struct("<16sQQIIIII")
_CRC = struct.Struct("<I")
RECORD_BYTES = _FIELDS.size + _CRC.size

KEYS = np.dtype(  # a record as an array that only needs the key
    {"names": ["home", "tag"], "formats": ["<u8", "<u8"], "offsets": [0, 8],
     "itemsize": RECORD_BYTES}
)  # fmt: skip


def shard_name(number: int) -> str:
    return f"vectors-{number:05}.bin"


def index_name(generation: int) -> str:
    return f"index-{generation:05}.bin"


class FileState(Frozen):
    """The valid size of a file, and the checksum of that part."""

    bytes: int = Field(default=0, ge=0)
    crc32: int = 0


class Manifest(Frozen):
    """A store at one moment. New sentences exist once this file has been replaced."""

    version: int = VERSION
    fingerprint: str
    """Of the model that made the vectors."""
    n_layers: int = Field(ge=1)
    """Of the model, like `dim`; the store may keep less."""
    dim: int = Field(ge=1)
    keep: Keep
    precision: Precision
    context_free: bool = True
    """Whether the model's layer 0 gives a word the same vector in every sentence."""
    sentences: int = 0
    words: int = 0
    shards: tuple[FileState, ...] = ()
    records: FileState = FileState()
    text: FileState = FileState()
    index: int = 0
    """The generation of the current index file."""

    @model_serializer(mode="wrap")
    def _without_default(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The same bytes as before there were models without a context-free layer."""
        content: dict[str, Any] = dump(self)
        if self.context_free:
            del content["context_free"]
        return content

    @property
    def codec(self) -> Codec:
        return Codec(self.precision, *self.keep.shape(self.dim))

    @property
    def files(self) -> dict[str, FileState]:
        """Every file that has a checksum in the manifest."""
        shards = {shard_name(i): state for i, state in enumerate(self.shards)}
        return {RECORDS: self.records, WORDS: self.text, **shards}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_checked(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> Manifest:
    remedy = "restore it from a copy"
    return read_checked(folder / MANIFEST, Manifest, VERSION, called="a store", remedy=remedy)


class Record(NamedTuple):
    """Where a sentence is: its words in the text file, its vectors in a shard."""

    key: bytes
    offset: int
    text_offset: int
    shard: int
    n_words: int
    text_bytes: int
    vectors_crc: int
    text_crc: int

    def pack(self) -> bytes:
        data = _FIELDS.pack(*self)
        return data + _CRC.pack(zlib.crc32(data))


def read_record(data: Any, number: int) -> Record:
    return Record._make(_FIELDS.unpack_from(data, number * RECORD_BYTES))


def is_sound(data: Any, number: int) -> bool:
    """Whether the record's own checksum matches."""
    begin = number * RECORD_BYTES
    end = begin + _FIELDS.size
    crc: int = _CRC.unpack_from(data, end)[0]
    return zlib.crc32(data[begin:end]) == crc
