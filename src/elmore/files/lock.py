"""One writer at a time, on every system. The operating system releases the lock when its process
ends: a killed writer leaves nothing that must be cleaned up. The file names the process that holds
the lock.

with Lock(folder): ...
with Lock(Path("out.hdf5"), beside=True): ...
"""

import errno
import json
import os
import socket
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from elmore.errors import InputError
from elmore.files.atomic import NO_FOLLOW, writing

LOCK = "lock"
_MAX_BYTES = 4096  # of its signature
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


class BusyError(InputError):
    """Another process holds the lock."""


class Lock:
    """The right to write to a target, held from construction to `release` or the end of `with`.

    The lock of a folder is a file in it, which stays. That of a file, with `beside`, is a hidden
    file beside it, which is removed in the end.
    """

    def __init__(self, target: Path, *, beside: bool = False):
        self.target, self._is_beside = target, beside
        hidden = target.with_name(f".{target.name}.elmore-lock")
        self._path = hidden if beside else target / LOCK
        self._file: IO[bytes]
        with writing(target):
            while not self._take():
                pass
        self._sign()

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        if self._file.closed:
            return
        if self._is_beside:
            with suppress(OSError):  # Windows does not remove an open file
                self._path.unlink()
        self._file.close()

    def _take(self) -> bool:
        """False if the last holder has removed the file in the meantime."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
        self._file = os.fdopen(handle, "r+b")
        try:
            if not self._is_free(handle):
                raise BusyError(
                    f"{self.target}: {self._holder()} is writing to it; wait until it ends, or "
                    "stop it."
                )
            if os.path.samestat(os.fstat(handle), self._path.stat()):
                return True
        except FileNotFoundError:
            pass
        except BaseException:
            self._file.close()
            raise
        self._file.close()
        return False

    def _is_free(self, handle: int) -> bool:
        try:
            return lock_descriptor(handle, blocking=False)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            warnings.warn(
                f"{self.target}: its file system has no locks; let no other process write to it.",
                stacklevel=5,
            )
            return True

    def _sign(self) -> None:
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        try:
            self._file.truncate(0)
            # The space: on Windows other processes cannot read the locked byte, the first one.
            self._file.write(b" " + json.dumps(me).encode())
            self._file.flush()
        except OSError:  # on a full disk the lock is still held
            pass

    def _holder(self) -> str:
        try:
            self._file.seek(1)
            text = self._file.read(_MAX_BYTES).removeprefix(b"{")  # elmore 0.1.0 wrote no space
            who = json.loads(b"{" + text)
            named = f"process {who['pid']} on {who['host']} (since {who['since']})"
            return " ".join(named.split())
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
