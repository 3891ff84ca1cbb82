"""A sorted table of keys and values in one file: LevelDB's format, TensorFlow's checkpoint index.

Data blocks come first, then a block that lists them, then a footer that says where that one is.
Every block carries its checksum. Blocks must follow one another, so that each byte is read once
and a file costs time and memory in proportion to its size.
"""

from collections.abc import Iterator
from typing import NamedTuple

from elmore.checkpoint.crc32c import crc32c, unmask
from elmore.checkpoint.snappy import decompress
from elmore.checkpoint.wire import read_bytes, read_varint
from elmore.errors import FormatError

MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
FOOTER_BYTES = 48  # two handles, padded, and the magic number
TRAILER_BYTES = 5  # after each block: kind of compression, checksum
UNCOMPRESSED, SNAPPY = 0, 1

MAX_TABLE_BYTES = 4 << 20  # of the file, and of all blocks and keys once unpacked
MAX_KEY_BYTES = 4096
MAX_VALUE_BYTES = 1 << 16
MAX_ENTRIES = 50_000


class Handle(NamedTuple):
    """Where a block lies, its trailer not counted."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + TRAILER_BYTES


def read_table(file: bytes) -> dict[bytes, bytes]:
    """All entries of a table, given all bytes of its file."""
    index = _read_footer(file)
    table: dict[bytes, bytes] = {}
    last_key, last_end, unpacked = b"", 0, 0
    for _, value in _entries(_read_block(file, index, MAX_TABLE_BYTES)):
        handle, at = _read_handle(value, 0)
        if at != len(value) or handle.offset < last_end or handle.end > index.offset:
            raise FormatError(f"the block at {handle.offset} overlaps another")
        block = _read_block(file, handle, MAX_TABLE_BYTES - unpacked)
        last_end, unpacked = handle.end, unpacked + len(block)
        for key, entry in _entries(block):
            unpacked += len(key)  # neighbors share prefixes, so keys may be longer than their block
            if unpacked > MAX_TABLE_BYTES or len(table) == MAX_ENTRIES:
                raise FormatError(f"more than {MAX_TABLE_BYTES} bytes or {MAX_ENTRIES} entries")
            if table and key <= last_key:
                raise FormatError("the keys are out of order")
            table[key] = entry
            last_key = key
    return table


def _read_footer(file: bytes) -> Handle:
    """The handle of the block that lists the data blocks."""
    if len(file) < FOOTER_BYTES or not file.endswith(MAGIC):
        raise FormatError("the last bytes are not those of a table")
    footer = file[-FOOTER_BYTES : -len(MAGIC)]
    _, at = _read_handle(footer, 0)  # of a block of table properties, which TensorFlow leaves empty
    return _read_handle(footer, at)[0]


def _read_handle(data: bytes, at: int) -> tuple[Handle, int]:
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return Handle(offset, size), at


def _read_block(file: bytes, handle: Handle, limit: int) -> bytes:
    """A block's bytes, checked and unpacked; more than `limit` are an error."""
    if handle.end > len(file) - FOOTER_BYTES:
        raise FormatError(f"the block at {handle.offset} ends after the file")
    stored = file[handle.offset : handle.end - 4]  # the kind of compression included
    checksum = int.from_bytes(file[handle.end - 4 : handle.end], "little")
    if crc32c(stored) != unmask(checksum):
        raise FormatError(f"the block at {handle.offset} does not match its checksum")
    block, kind = stored[:-1], stored[-1]
    if kind == SNAPPY:
        return decompress(block, limit)
    if kind != UNCOMPRESSED:
        raise FormatError(f"the block at {handle.offset} has the unknown compression {kind}")
    return block


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values in file order; a key is given as what differs from the key before it."""
    n_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (n_restarts + 1)  # restarts serve to seek; we read from the start
    if end < 0:
        raise FormatError(f"a block of {len(block)} bytes claims {n_restarts} restarts")
    entries, key, at = block[:end], b"", 0
    while at < end:
        shared, at = read_varint(entries, at)
        own_size, at = read_varint(entries, at)
        value_size, at = read_varint(entries, at)
        own, at = read_bytes(entries, at, own_size)
        value, at = read_bytes(entries, at, value_size)
        if shared > len(key) or shared + own_size > MAX_KEY_BYTES:
            raise FormatError(f"a key of {shared + own_size} bytes after one of {len(key)}")
        if value_size > MAX_VALUE_BYTES:
            raise FormatError(f"an entry of {value_size} bytes; {MAX_VALUE_BYTES} are plenty")
        key = key[:shared] + own
        yield key, value
