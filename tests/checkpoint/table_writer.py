"""Writes checkpoint index tables by hand, in as few lines as will do: valid ones that TensorFlow
rarely makes, and ones with a single lie in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from elmore.checkpoint.crc32c import crc32c


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def masked(checksum: int) -> bytes:
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return ((rotated + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


RESTARTS = (0).to_bytes(4, "little") + (1).to_bytes(4, "little")  # one, at the first entry


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    parts, last = [], b""
    for key, value in entries:
        pairs = enumerate(zip(key, last, strict=False))
        shared = next((n for n, (a, b) in pairs if a != b), min(len(key), len(last)))
        sizes = varint(shared) + varint(len(key) - shared) + varint(len(value))
        parts.append(sizes + key[shared:] + value)
        last = key
    return b"".join(parts) + RESTARTS


def compress(data: bytes) -> bytes:
    """Snappy: literals of up to 60 bytes, and copies of 4 to 60 bytes found by their first 4."""
    out, literal, at, seen = varint(len(data)), b"", 0, dict[bytes, int]()
    while at < len(data):
        start, n = seen.get(data[at : at + 4]), 0
        seen[data[at : at + 4]] = at
        while start is not None and n < 60 and data[at + n : at + n + 1] == data[start + n :][:1]:
            n += 1
        if literal and (n >= 4 or len(literal) == 60):
            out, literal = out + bytes([len(literal) - 1 << 2]) + literal, b""
        if start is not None and n >= 4:
            out += bytes([n - 1 << 2 | 2]) + (at - start).to_bytes(2, "little")
        else:
            literal, n = literal + data[at : at + 1], 1
        at += n
    return out + (bytes([len(literal) - 1 << 2]) + literal if literal else b"")


def seal(contents: bytes, kind: int = 0) -> bytes:
    return contents + bytes([kind]) + masked(crc32c(contents + bytes([kind])))


def table(blocks: list[bytes], kind: int = 0) -> bytes:
    """A table of these data blocks, already packed; keys of the index do not matter to us."""
    out, handles = b"", list[tuple[bytes, bytes]]()
    for n, contents in enumerate(blocks):
        handles.append((b"%06d" % n, varint(len(out)) + varint(len(contents))))
        out += seal(contents, kind)
    return with_index(out, block(handles))


def with_index(blocks: bytes, index: bytes) -> bytes:
    meta = seal(block([]))
    handles = varint(len(blocks)) + varint(len(meta) - 5)
    handles += varint(len(blocks) + len(meta)) + varint(len(index))
    magic = 0xDB4775248B80FB57.to_bytes(8, "little")
    return blocks + meta + seal(index) + handles.ljust(40, b"\0") + magic


def entry(shape: tuple[int, ...], *, crc: bytes = b"", **fields: int) -> bytes:
    numbers = {"dtype": 1, "shard": 3, "offset": 4, "size": 5}
    sizes = b"".join(field(2, field(1, size)) for size in shape)
    parts = [field(numbers[name], value) for name, value in ({"dtype": 1} | fields).items()]
    return b"".join(parts) + field(2, sizes) + (b"\x35" + crc if crc else b"")


HEADER = (b"", field(1, 1) + field(3, field(1, 1)))


def write(folder: Path, index: bytes, data: bytes = b"") -> Path:
    (folder / "m.index").write_bytes(index)
    (folder / "m.data-00000-of-00001").write_bytes(data)
    return folder / "m"


def float_entries(values: dict[str, np.ndarray]) -> tuple[list[tuple[bytes, bytes]], bytes]:
    entries, data = [HEADER], b""
    for name in sorted(values):
        raw = values[name].tobytes()
        crc = masked(crc32c(raw))
        place = {"offset": len(data), "size": len(raw)}
        entries.append((name.encode(), entry(values[name].shape, crc=crc, **place)))
        data += raw
    return entries, data
