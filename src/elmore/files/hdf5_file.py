"""HDF5 files that report every failed write, for example on a full disk."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py


@contextmanager
def hdf5_file(path: Path) -> Iterator[tuple[h5py.File, "Disk"]]:
    """A new HDF5 file, and the `Disk` that reports its failed writes."""
    with path.open("w+b", buffering=0) as raw:
        disk = Disk(raw)
        with h5py.File(disk, "w") as file:
            yield file, disk
        disk.check()


class Disk:
    """The file below an HDF5 file. The HDF5 library loses some write errors and crashes after
    others. So it is told that every write succeeded, and `check` raises the first error."""

    def __init__(self, raw: io.FileIO):
        self._raw = raw
        self._error: OSError | None = None

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: memoryview) -> int:
        try:
            done = 0
            while self._error is None and done < len(data):
                done += self._raw.write(data[done:]) or 0
        except OSError as error:
            self._error = error
        return len(data)

    def truncate(self, size: int) -> int:
        try:
            self._raw.truncate(size)
        except OSError as error:
            self._error = self._error or error
        return size

    def readinto(self, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer) and (got := self._raw.readinto(buffer[done:])):
            done += got
        return done

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(size) or b""

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def flush(self) -> None:
        """Nothing to do: the file is unbuffered."""
