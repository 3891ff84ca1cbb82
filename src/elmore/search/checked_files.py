"""The data files of an index in mapped memory, compared with their checksums when they are read: a
large file block by block, each block once; a small file as a whole.

All are mapped when the index is opened, so that a reader keeps its files when a writer replaces
them.
"""

# n rows, m rows asked for, W numbers in a row
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError
from elmore.search.manifest import REMEDY
from elmore.store.layout import FileState
from elmore.store.snapshot import mapped
from elmore.store.words import unpack

BLOCK = 1 << 14
LARGEST = 1e15
"""No vector has numbers of this size; squares of larger ones overflow."""
_CHUNK = 1 << 24
_ANY_SIZE = 1 << 62

Ints = NDArray[np.int64]
Rows = slice | Ints | int


def damaged(path: Path, what: str = "its checksum does not match") -> FormatError:
    return FormatError(f"{path}: damaged, {what}; {REMEDY}.")


def map_file(path: Path, n_bytes: int | None) -> Any:
    """The file, of exactly this size; None: whatever size it has."""
    wanted = _ANY_SIZE if n_bytes is None else n_bytes
    data = mapped(path, wanted)
    if not len(data) and not path.exists():
        raise FileNotFoundError(2, "No such file", str(path))
    if n_bytes is not None and len(data) < n_bytes:
        raise FormatError(
            f"{path}: truncated, {len(data):,} bytes of {n_bytes:,} are left; {REMEDY}."
        )
    return data


class WholeFile:
    """A small file that is read as a whole."""

    def __init__(self, path: Path, state: FileState | None):
        """Without a state, as version 2 wrote it, nothing is compared."""
        self.path, self._state = path, state
        self._data = map_file(path, None if state is None else state.bytes)
        if not len(self._data):
            raise damaged(path, "it is empty")

    def checked(self) -> Any:
        """What is mapped."""
        if self._state is not None and file_state(self._data).crc32 != self._state.crc32:
            raise damaged(self.path)
        return self._data

    def words(self) -> list[str]:
        try:
            return unpack(self.checked()[:])
        except UnicodeDecodeError:
            raise damaged(self.path, "it is not UTF-8") from None

    def numbers(self, kind: Any, n: int | None = None) -> NDArray[Any]:
        """As this many numbers, or as many as there are."""
        data, size = self.checked(), np.dtype(kind).itemsize
        if len(data) % size or (n is not None and len(data) != n * size):
            wanted = f"{n:,} numbers" if n is not None else "whole numbers"
            raise damaged(self.path, f"{len(data):,} bytes are not {wanted} of {size} bytes each")
        return np.frombuffer(data, kind)


def file_state(data: Any) -> FileState:
    """The size and the checksum of a file's contents."""
    crc = 0
    with memoryview(data) as view:
        for begin in range(0, len(view), _CHUNK):
            crc = zlib.crc32(view[begin : begin + _CHUNK], crc)
    return FileState(bytes=len(data), crc32=crc)


def block_sums(data: Any) -> NDArray[np.uint32]:
    """The checksum of each block."""
    with memoryview(data) as view:
        sums = [zlib.crc32(view[begin : begin + BLOCK]) for begin in range(0, len(view), BLOCK)]
    return np.array(sums, np.uint32)


class BlockFile:
    """A large file. A block is compared with its checksum before it is first used."""

    def __init__(self, path: Path, n_bytes: int | None, sums: NDArray[np.uint32] | None):
        """Without checksums, as version 2 wrote it, nothing is compared."""
        self.path, self.data, self._sums = path, map_file(path, n_bytes), sums
        self._unread = bytearray(b"\x01") * (0 if sums is None else len(sums))
        self._view = memoryview(self.data)

    @property
    def is_read(self) -> bool:
        """Every block has been compared, or there are no checksums."""
        return self._unread.find(1) < 0

    def check(self, begin: int, end: int) -> None:
        """Compare the blocks of these bytes that have not been read before."""
        last = -(-end // BLOCK)
        block = self._unread.find(1, begin // BLOCK, last)
        while block >= 0:
            assert self._sums is not None
            found = zlib.crc32(self._view[block * BLOCK : (block + 1) * BLOCK])
            if found != self._sums[block]:
                raise damaged(self.path)
            self._unread[block] = 0
            block = self._unread.find(1, block + 1, last)

    def read(self, begin: int, end: int) -> bytes:
        self.check(begin, end)
        data: bytes = self.data[begin:end]
        return data


class Column:
    """A large file of numbers, (n,) or (n, W)."""

    def __init__(self, file: BlockFile, kind: Any, n: int, *width: int):
        self._file = file
        self._numbers = np.frombuffer(file.data, kind).reshape(n, *width)
        self._row_bytes = np.dtype(kind).itemsize * int(np.prod(width))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: Rows) -> NDArray[Any]:
        """Some rows, (m,) or (m, W), not copied if they are a slice."""
        if not self._file.is_read:
            self._check(rows)
        found: NDArray[Any] = self._numbers[rows]
        return found

    def _check(self, rows: Rows) -> None:
        match rows:
            case slice():
                begin, end, _ = rows.indices(len(self))
                self._file.check(begin * self._row_bytes, end * self._row_bytes)
            case int():
                self._file.check(rows * self._row_bytes, (rows + 1) * self._row_bytes)
            case _:
                for block in np.unique(rows * self._row_bytes // BLOCK).tolist():
                    begin = block * BLOCK  # a row may end in the next block
                    self._file.check(begin, begin + BLOCK + self._row_bytes - 1)
