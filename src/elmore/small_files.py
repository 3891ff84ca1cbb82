"""Reading files that nobody vouches for. A name may be a link to a device or a pipe, which never
ends, or to a file of any size: only regular files are opened, and small ones have a limit.
"""

import errno
import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path

from elmore.errors import FormatError

MAX_BYTES = 1 << 24


def open_regular(path: Path) -> BufferedReader:
    """A file for reading; an OSError if it is a folder, a device or a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)  # without waiting for a writer of the pipe
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(handle, "rb")


def open_small(path: Path, most: int = MAX_BYTES) -> BufferedReader:
    """The same for a file of at most `most` bytes; why it cannot be read is said in one line."""
    try:
        file = open_regular(path)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise FormatError(f"{path}: cannot be read ({reason or error}).") from None
    if os.fstat(file.fileno()).st_size > most:
        file.close()
        raise FormatError(f"{path}: over {most >> 20} MiB; expected a small file.")
    return file


def file_sha256(path: Path) -> str:
    """Of a file of any size, a piece at a time."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error}).") from None


def read_small(path: Path, most: int = MAX_BYTES) -> bytes:
    with open_small(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # as much memory as it says is taken
