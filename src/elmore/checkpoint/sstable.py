"""A sorted table of keys and values in one file: LevelDB's format, TensorFlow's checkpoint index.

Data blocks come first, then a block that lists them, then a footer that says where that one is.
Every block carries its checksum, and may be compressed by Snappy. Blocks must follow one another,
so that each byte is read once and a file costs time and memory in proportion to its size.
"""

from collections.abc import Iterator
from typing import NamedTuple

from elmore.checkpoint.crc32c import crc32c, unmask
from elmore.errors import FormatError

MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
FOOTER_BYTES = 48  # two handles, padded, and the magic number
TRAILER_BYTES = 5  # after each block: kind of compression, checksum
UNCOMPRESSED, SNAPPY = 0, 1
MAX_SNAPPY_RATIO = 22  # at best an element is 3 bytes for 64
MAX_VARINT_BYTES = 10  # 64 bits, seven at a time
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # kinds of fields of a message

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


# Snappy: a block is its length and then elements, literal bytes or a copy of earlier output -------


def decompress(block: bytes, limit: int) -> bytes:
    """The bytes of a compressed block. The announced length is checked first: a small block cannot
    fill the memory, and more than `limit` bytes are an error."""
    size, at = read_varint(block, 0)
    if size > limit or size > MAX_SNAPPY_RATIO * len(block):
        raise FormatError(f"a compressed block of {len(block)} bytes claims to hold {size}")
    out = bytearray()
    while at < len(block):
        if block[at] & 3 == 0:
            literal, at = _read_literal(block, at)
            out += literal
        else:
            length, offset, at = _read_copy(block, at)
            out += _copied(out, length, offset)
        if len(out) > size:
            raise FormatError(f"a compressed block holds more than the {size} bytes it announces")
    if len(out) != size:
        raise FormatError(f"a compressed block announces {size} bytes and holds {len(out)}")
    return bytes(out)


def _read_literal(block: bytes, at: int) -> tuple[bytes, int]:
    length = block[at] >> 2
    at += 1
    if length >= 60:  # the length itself follows, in 1 to 4 bytes
        raw, at = read_bytes(block, at, length - 59)
        length = int.from_bytes(raw, "little")
    return read_bytes(block, at, length + 1)


def _read_copy(block: bytes, at: int) -> tuple[int, int, int]:
    """Length and distance back of a copy, and the place after it."""
    tag = block[at]
    if tag & 3 == 1:
        raw, at = read_bytes(block, at + 1, 1)
        return 4 + (tag >> 2 & 7), (tag >> 5) << 8 | raw[0], at
    raw, at = read_bytes(block, at + 1, 2 if tag & 3 == 2 else 4)
    return 1 + (tag >> 2), int.from_bytes(raw, "little"), at


def _copied(out: bytearray, length: int, offset: int) -> bytes:
    """`length` bytes from `offset` back; a copy longer than its distance repeats itself."""
    if not 0 < offset <= len(out):
        raise FormatError(f"a compressed block copies from {offset} bytes back, of {len(out)}")
    start = len(out) - offset
    pattern = bytes(out[start : start + length])
    return (pattern * (length // len(pattern) + 1))[:length]


# Protocol-buffer messages: varints, and fields that carry their number. Only what TensorFlow's
# checkpoint metadata uses, so no schema: the caller asks for fields by number.


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number that starts at `at`, and the place after it."""
    if at < len(data) and data[at] < 0x80:  # nearly all are one byte
        return data[at], at + 1
    value = 0
    for n, byte in enumerate(data[at : at + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            if value >> 64:
                raise FormatError("a number is larger than 64 bits")
            return value, at + n + 1
    raise FormatError("a number is cut off or longer than 64 bits")


def read_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """`size` bytes that start at `at`, and the place after them."""
    if at + size > len(data):
        raise FormatError(f"{size} bytes were announced, {max(len(data) - at, 0)} are left")
    return data[at : at + size], at + size


class Message:
    """One message, split into its fields; absent fields read as 0 or empty, as the format says."""

    def __init__(self, data: bytes):
        self._integers: dict[int, int] = {}
        self._parts: dict[int, list[bytes]] = {}
        at = 0
        while at < len(data):
            at = self._read_field(data, at)

    def _read_field(self, data: bytes, at: int) -> int:
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            self._integers[number], at = read_varint(data, at)
        elif kind == BYTES:
            size, at = read_varint(data, at)
            part, at = read_bytes(data, at, size)
            self._parts.setdefault(number, []).append(part)
        elif kind in (FIXED32, FIXED64):
            raw, at = read_bytes(data, at, 4 if kind == FIXED32 else 8)
            self._integers[number] = int.from_bytes(raw, "little")
        else:
            raise FormatError(f"field {number} of a message has the unknown kind {kind}")
        return at

    def natural(self, number: int) -> int:
        """An integer of which no negative value makes sense here (int32, int64, fixed32, enum)."""
        value = self._integers.get(number, 0)
        if value >> 63:
            raise FormatError(f"field {number} of a message is negative: {value - (1 << 64)}")
        return value

    def message(self, number: int) -> "Message":
        """A message inside this one; if it comes in parts, they are merged."""
        return Message(b"".join(self.parts(number)))

    def parts(self, number: int) -> list[bytes]:
        """Every value of a repeated field of messages or strings."""
        return self._parts.get(number, [])
