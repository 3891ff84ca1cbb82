"""Ways to damage a file: blindly, in its numbers, in its JSON, and inside of its compression, where
the checksums of the container stay right. Also files that would run something if unpickled.
"""

import gzip
import io
import json
import os
import pickle
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
Mutation = Callable[[bytes, Rng], bytes]

NUMBERS = [0, 1, -1, 7, 255, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1]
VALUES: list[Any] = [
    *NUMBERS, 10**30, 1.5, 1e300, -0.5, float("nan"), None, True, "", "many", "../../x", "a\nb",
    "\0", [], {}, [[1, 1]] * 3, {"kind": "none"},
]  # fmt: skip


class Canary:
    """Unpickled by an unwary reader, it makes a folder."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def mutants(raw: bytes, rng: Rng, canary: Path) -> Iterator[tuple[str, bytes]]:
    """Without end: the name of a mutation and what it makes of `raw`. The first is a canary."""
    yield "canary", with_canary(raw, canary)
    while True:
        kinds = [flip, flip, cut, zeros, noise, double, length, length, number, number]
        kinds += [edit_json] * 3 if is_json(raw) else []
        kinds += [edit_lines] if b"\n" in raw[:4096] else []
        kinds += [edit_header] * 3 if header_of(raw) is not None else []
        kinds += [inside] * 6 if unpack(raw) is not None else []
        kind = kinds[int(rng.integers(len(kinds)))]
        yield kind.__name__, kind(raw, rng)


def some(rng: Rng, size: int) -> int:
    """A place; half of them near the beginning, where headers are."""
    near = min(size, 512) if rng.integers(2) else size
    return int(rng.integers(max(1, near)))


def flip(raw: bytes, rng: Rng) -> bytes:
    data = bytearray(raw)
    for _ in range(int(rng.integers(1, 5)) if raw else 0):
        data[some(rng, len(raw))] ^= 1 << int(rng.integers(8))
    return bytes(data)


def cut(raw: bytes, rng: Rng) -> bytes:
    return raw[: some(rng, len(raw))]


def zeros(raw: bytes, rng: Rng) -> bytes:
    at, n = some(rng, len(raw)), int(rng.integers(1, 64))
    return raw[:at] + bytes(n) + raw[at + n :]


def noise(raw: bytes, rng: Rng) -> bytes:
    at, n = some(rng, len(raw)), int(rng.integers(1, 16))
    return raw[:at] + rng.bytes(n) + raw[at + n :]


def double(raw: bytes, rng: Rng) -> bytes:
    at, n = some(rng, len(raw)), int(rng.integers(1, 200))
    return raw[:at] + raw[at : at + n] * 2 + raw[at + n :]


def length(raw: bytes, rng: Rng) -> bytes:
    """A field of 2, 4 or 8 bytes becomes a telling number, in either order of bytes."""
    size = int(rng.choice([2, 4, 8]))
    at = some(rng, len(raw)) // size * size
    value = NUMBERS[int(rng.integers(len(NUMBERS)))] % (1 << 8 * size)
    order: Any = "little" if rng.integers(4) else "big"
    return raw[:at] + value.to_bytes(size, order) + raw[at + size :]


def number(raw: bytes, rng: Rng) -> bytes:
    """A number that is written in digits; sometimes with as many, so that nothing moves."""
    places = list(re.finditer(rb"[0-9]+", raw[: 1 << 16]))
    if not places:
        return flip(raw, rng)
    found = places[int(rng.integers(min(len(places), 12) if rng.integers(2) else len(places)))]
    new = str(NUMBERS[int(rng.integers(len(NUMBERS)))]).encode()
    if rng.integers(3) == 0:
        new = b"9" * len(found[0])
    return raw[: found.start()] + new + raw[found.end() :]


def is_json(raw: bytes) -> bool:
    if raw[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True


def edit_json(raw: bytes, rng: Rng) -> bytes:
    return json.dumps(edited(json.loads(raw), rng)).encode()


def edited(value: Any, rng: Rng) -> Any:
    """One thing in it replaced, dropped or put one level deeper."""
    if isinstance(value, dict | list) and value and rng.integers(8):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[int(rng.integers(len(keys)))]
        changed = value.copy()
        if rng.integers(10) == 0:
            del changed[key]
        else:
            changed[key] = edited(value[key], rng)
        return changed
    return VALUES[int(rng.integers(len(VALUES)))]


def edit_lines(raw: bytes, rng: Rng) -> bytes:
    """A line dropped, repeated, joined with the next, or edited as JSON."""
    lines = raw.split(b"\n")
    at = int(rng.integers(len(lines)))
    match int(rng.integers(4)):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case 3:
            lines[at] = edit_json(lines[at], rng) if is_json(lines[at]) else noise(lines[at], rng)
    return b"\n".join(lines)


def header_of(raw: bytes) -> bytes | None:
    """The JSON at the beginning of a safetensors file."""
    size = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + size]
    return header if 2 <= size == len(header) and is_json(header) else None


def edit_header(raw: bytes, rng: Rng) -> bytes:
    header = header_of(raw)
    assert header is not None
    new = edit_json(header, rng)
    return len(new).to_bytes(8, "little") + new + raw[8 + len(header) :]


def unpack(raw: bytes) -> dict[str, bytes] | None:
    """The members of a zip, or the content of a gzip file under the name ''."""
    try:
        if raw[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                return {name: archive.read(name) for name in archive.namelist()} or None
        return {"": gzip.decompress(raw)} if raw[:2] == b"\x1f\x8b" else None
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error):
        return None


def pack(members: dict[str, bytes], compression: int) -> bytes:
    if "" in members:
        return gzip.compress(members[""], 1)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def compression_of(raw: bytes) -> int:
    if raw[:2] != b"PK":
        return zipfile.ZIP_STORED
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return archive.infolist()[0].compress_type


def inside(raw: bytes, rng: Rng) -> bytes:
    """One member damaged, the container made again around it."""
    members = unpack(raw)
    assert members is not None
    names = [name for name, content in members.items() if content]
    name = names[int(rng.integers(len(names)))]
    kinds: list[Mutation] = [flip, cut, zeros, noise, double, length, number]
    kinds += [edit_json] * 3 if is_json(members[name]) else []
    members[name] = kinds[int(rng.integers(len(kinds)))](members[name], rng)
    return pack(members, compression_of(raw))


def with_canary(raw: bytes, canary: Path) -> bytes:
    """A pickle that would run; in place of the one in a torch file, or else of the whole file."""
    harm = pickle.dumps({"weight": Canary(canary)}, protocol=2)
    members = unpack(raw) or {}
    names = [name for name in members if name.endswith((".pkl", ".th", ".npy"))]
    if not names:
        return harm
    return pack(members | {names[0]: harm}, compression_of(raw))
