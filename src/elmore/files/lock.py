"""One writer at a time. The system drops the lock with the process that holds it: a killed writer
leaves nothing to clean up; the file only says who it is.
"""

import json
import os
import socket
import time
from pathlib import Path
from typing import IO

from elmore.errors import ConfigError, InputError
from elmore.files.atomic import cannot_write

LOCK = "lock"


class BusyError(InputError):
    """Somebody else is writing to the store."""


class Lock:
    """Held from its making to `release`."""

    def __init__(self, folder: Path):
        try:
            import fcntl
        except ImportError:
            raise ConfigError(
                "Writing a store needs POSIX file locks; use Linux or macOS."
            ) from None
        try:
            self._file: IO[bytes] = (folder / LOCK).open("a+b")
        except OSError as error:
            raise cannot_write(folder, error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._holder()
            self._file.close()
            raise BusyError(
                f"{folder}: {holder} is writing to it; wait until that has ended, or stop it."
            ) from None
        self._sign()

    def release(self) -> None:
        self._file.close()

    def _sign(self) -> None:
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%F %T")}
        try:
            self._file.truncate(0)
            self._file.write(json.dumps(me).encode())
            self._file.flush()
        except OSError:  # on a full disk the lock is no less held
            pass

    def _holder(self) -> str:
        try:
            self._file.seek(0)
            who = json.loads(self._file.read())
            return f"process {who['pid']} on {who['host']} (since {who['since']})"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
