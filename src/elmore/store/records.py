"""The file of records: one record of fixed size per sentence, in the order of storing."""

import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

_FIELDS = struct.Struct("<16sQQIIIII")
_CRC = struct.Struct("<I")
RECORD_BYTES = _FIELDS.size + _CRC.size

KEYS = np.dtype(  # a record as an array that only needs the key
    {"names": ["home", "tag"], "formats": ["<u8", "<u8"], "offsets": [0, 8],
     "itemsize": RECORD_BYTES}
)  # fmt: skip


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
