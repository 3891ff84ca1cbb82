"""Reads TensorFlow checkpoints ("tensor bundles": an .index beside .data files) without TensorFlow.

The index is a table from names to type, shape, place and checksum; the data files are bare arrays.
Files are not trusted: everything is checked, and nothing in them can run.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.checkpoint.crc32c import crc32c, unmask
from elmore.checkpoint.sstable import MAX_TABLE_BYTES, Message, read_table
from elmore.errors import FormatError
from elmore.small_files import open_regular, read_small

BUNDLE_VERSION = 1
LITTLE_ENDIAN = 0
HEADER_KEY = b""
SLICE_PREFIX = b"\0"  # keys of the pieces of partitioned tensors, which their whole lists too

# TensorFlow's numbers of types; those without an entry in STORED_AS are known by name only.
DTYPE_NAMES = {1: "float32", 2: "float64", 3: "int32", 9: "int64", 14: "bfloat16", 19: "float16"}
DTYPE_NAMES |= {4: "uint8", 5: "int16", 6: "int8", 7: "string", 10: "bool"}
STORED_AS: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),  # the upper half of a float32
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
}

MAX_RANK = 32  # NumPy's, before 2.0
MAX_ELEMENTS = 1 << 40  # NumPy multiplies dimensions even when one of them is 0
MAX_STATE_BYTES = 1 << 16  # the `checkpoint` file names the latest one in its first line


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What the index says about one tensor."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    partitioned: bool


class Header(NamedTuple):
    """What the index says about the whole checkpoint."""

    n_shards: int
    endianness: int
    min_version: int


class TensorBundle:
    """The tensors of one checkpoint: names and shapes at once, values when asked for."""

    def __init__(self, prefix: Path, n_shards: int, entries: dict[str, Entry]):
        self.prefix = prefix
        self._n_shards = n_shards
        self._entries = entries
        self._listed: dict[int, int] = {}  # bytes of all tensors in each data file
        for entry in entries.values():
            self._listed[entry.shard] = self._listed.get(entry.shard, 0) + entry.size

    @classmethod
    def open(cls, prefix: Path) -> "TensorBundle":
        """Read the index of the checkpoint `prefix`, such as `folder/model.ckpt-1234`."""
        path = Path(f"{prefix}.index")
        file = _read_index(path)
        try:
            table = read_table(file)
            header = _read_header(table)
            entries = {
                _decode_name(key): _read_entry(key, value, header.n_shards)
                for key, value in table.items()
                if key != HEADER_KEY and not key.startswith(SLICE_PREFIX)
            }
        except FormatError as error:
            raise FormatError(
                f"{path}: {error}. Expected the index of a TensorFlow checkpoint; "
                "if it should be one, copy it again."
            ) from error
        _check_header(path, header)
        return cls(prefix, header.n_shards, entries)

    @property
    def names(self) -> list[str]:
        """The names of all tensors, sorted."""
        return list(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._entry(name).shape

    def dtype(self, name: str) -> str:
        """The type a tensor is stored in, such as "float32" or "bfloat16"."""
        return self._entry(name).dtype

    def read(self, name: str) -> NDArray[Any]:
        """The values of a tensor, checked against their checksum; bfloat16 becomes float32."""
        entry = self._entry(name)
        self._check_readable(name, entry)
        path = self._data_path(entry)
        raw = _read_range(path, name, entry.offset, entry.size)
        if (listed := self._listed[entry.shard]) > (held := path.stat().st_size):
            raise FormatError(
                f"{path}: has {held} bytes, but the index lists {listed} bytes of tensors in it, "
                "so they overlap. The index is damaged or hostile; copy it again."
            )
        if crc32c(raw) != entry.checksum:
            raise FormatError(
                f"{path}: the values of {name!r} do not match the checksum in the index. "
                "The file is damaged or belongs to another checkpoint; copy it again."
            )
        flat = raw.view(STORED_AS[entry.dtype])
        if entry.dtype == "bfloat16":
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        return flat.reshape(entry.shape)

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            some = ", ".join(map(repr, self.names[:3])) or "none"
            raise FormatError(
                f"{self.prefix}.index: no tensor {name!r} among its {len(self._entries)} "
                f"({some}, ...). The checkpoint is probably of another kind of model."
            )
        return self._entries[name]

    def _check_readable(self, name: str, entry: Entry) -> None:
        where = f"{self.prefix}.index: tensor {name!r}"
        if entry.dtype not in STORED_AS:
            known = ", ".join(STORED_AS)
            raise FormatError(f"{where} is of type {entry.dtype}; only {known} can be read.")
        if entry.partitioned:
            raise FormatError(
                f"{where} is stored in slices, which are not read. Save it once more in "
                "TensorFlow without a partitioner."
            )
        if entry.size != math.prod(entry.shape) * STORED_AS[entry.dtype].itemsize:
            raise FormatError(
                f"{where} has {entry.size} bytes, which do not fill {entry.shape} of "
                f"{entry.dtype}. The index is damaged; copy it again."
            )

    def _data_path(self, entry: Entry) -> Path:
        return Path(f"{self.prefix}.data-{entry.shard:05}-of-{self._n_shards:05}")


def latest_checkpoint(folder: Path) -> Path:
    """The prefix of a folder's latest checkpoint: the one its `checkpoint` file names, or else
    the one with the highest number."""
    prefixes = {path.name.removesuffix(".index") for path in folder.glob("*.index")}
    if not prefixes:
        raise FormatError(f"{folder}: no .index file of a TensorFlow checkpoint in this folder.")
    state = folder / "checkpoint"
    if not state.is_file():
        return folder / max(prefixes, key=lambda name: (_step(name), name))
    name = _latest_name(state)
    if name not in prefixes:
        raise FormatError(
            f"{state}: names {name[:80]!r} as the latest, but the .index of that name is not here. "
            f"Copy it here, or name one of these yourself: {', '.join(sorted(prefixes)[:3])}."
        )
    return folder / name


def _latest_name(state: Path) -> str:
    """What a `checkpoint` file calls the latest; without folders, often another machine's."""
    with state.open("rb") as file:
        text = file.read(MAX_STATE_BYTES).decode("utf-8", errors="replace")
    found = re.search(r'^[ \t]*model_checkpoint_path[ \t]*:[ \t]*"([^"\r\n]*)"', text, re.MULTILINE)
    if not found:
        raise FormatError(
            f'{state}: no line `model_checkpoint_path: "..."` in it. Name the checkpoint itself, '
            "such as model.ckpt-1234, or remove the file to take the one with the highest number."
        )
    return re.split(r"[/\\]", found[1])[-1]


def _step(name: str) -> int:
    """The training step a prefix ends in, -1 if none."""
    found = re.search(r"-([0-9]+)$", name)
    return int(found[1]) if found else -1


def _read_index(path: Path) -> bytes:
    if not path.is_file():
        raise FormatError(
            f"{path}: no such file. A TensorFlow checkpoint is named without ending, such as "
            "model.ckpt-1234, and its .index and .data files stand side by side."
        )
    return read_small(path, MAX_TABLE_BYTES)  # it holds names and shapes only


def _read_header(table: dict[bytes, bytes]) -> Header:
    if HEADER_KEY not in table:
        raise FormatError("the table has no header entry")
    fields = Message(table[HEADER_KEY])
    header = Header(fields.natural(1), fields.natural(2), fields.message(3).natural(2))
    if header.n_shards < 1:
        raise FormatError("the header counts no data files")
    return header


def _check_header(path: Path, header: Header) -> None:
    """Refuse what is valid but not supported."""
    again = "Save the checkpoint again"
    if header.endianness != LITTLE_ENDIAN:
        raise FormatError(
            f"{path}: the tensors are big-endian; only little-endian ones can be read. "
            f"{again} on a little-endian machine, as nearly all are."
        )
    if header.min_version > BUNDLE_VERSION:
        raise FormatError(
            f"{path}: asks for a reader of version {header.min_version} of the format; this one "
            f"knows version {BUNDLE_VERSION}. {again} with an older TensorFlow."
        )


def _decode_name(key: bytes) -> str:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"the name {key[:80]!r} is not UTF-8") from error


def _read_entry(key: bytes, value: bytes, n_shards: int) -> Entry:
    fields = Message(value)
    dtype, shard = fields.natural(1), fields.natural(3)
    if not dtype or shard >= n_shards:
        raise FormatError(
            f"{key[:80]!r} has type {dtype} and is in data file {shard} of {n_shards}"
        )
    return Entry(
        dtype=DTYPE_NAMES.get(dtype, f"number {dtype}"),
        shape=_read_shape(key, fields.message(2)),
        shard=shard,
        offset=fields.natural(4),
        size=fields.natural(5),
        checksum=unmask(fields.natural(6) & 0xFFFFFFFF),
        partitioned=bool(fields.parts(7)),
    )


def _read_shape(key: bytes, shape: Message) -> tuple[int, ...]:
    sizes = tuple(Message(dimension).natural(1) for dimension in shape.parts(2)[: MAX_RANK + 1])
    if len(sizes) > MAX_RANK or math.prod(max(size, 1) for size in sizes) > MAX_ELEMENTS:
        raise FormatError(f"{key[:80]!r} has an impossible shape")
    return sizes


def _read_range(path: Path, name: str, offset: int, size: int) -> NDArray[np.uint8]:
    """`size` bytes of a file; memory is allocated only if the file has them."""
    if not path.is_file():
        raise FormatError(f"{path}: no such file, though {name!r} is in it. Copy it there.")
    held = path.stat().st_size
    if offset + size <= held:
        raw = np.empty(size, np.uint8)
        with open_regular(path) as file:
            file.seek(offset)
            if file.readinto(raw.data) == size:
                return raw
    raise FormatError(
        f"{path}: has {held} bytes, but {name!r} ends at {offset + size}. "
        "The file is cut off or belongs to another checkpoint; copy it again."
    )
