"""Snappy decompression, for table blocks that are stored compressed.

A block is its length and then elements: literal bytes, or a copy of earlier output. The announced
length is checked first, so a small block cannot fill the memory.
"""

from elmore.checkpoint.wire import read_bytes, read_varint
from elmore.errors import FormatError

MAX_RATIO = 22  # at best an element is 3 bytes for 64


def decompress(block: bytes, limit: int) -> bytes:
    """The bytes of a compressed block; more than `limit` are an error."""
    size, at = read_varint(block, 0)
    if size > limit or size > MAX_RATIO * len(block):
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
