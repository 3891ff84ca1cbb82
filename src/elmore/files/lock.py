"""One writer at a time, on every system. The operating system releases the lock when its process
ends: a killed writer leaves nothing to clean up. The file names the process that holds the lock.
"""

import json
import os
import socket
import time
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from elmore.errors import InputError
from elmore.files.atomic import writing

LOCK = "lock"


class BusyError(InputError):
    """Another process holds the lock."""


class Lock:
    """The right to write to a folder, held from construction to `release`."""

    def __init__(self, folder: Path):
        with writing(folder):
            self._file: IO[bytes] = (folder / LOCK).open("a+b")
            try:
                held = lock_descriptor(self._file.fileno(), blocking=False)
            except OSError:
                self._file.close()
                raise
        if not held:
            holder = self._holder()
            self._file.close()
            raise BusyError(f"{folder}: {holder} is writing to it; wait until it ends, or stop it.")
        self._sign()

    def release(self) -> None:
        self._file.close()

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
            text = self._file.read().removeprefix(b"{")  # elmore 0.1.0 wrote no space
            who = json.loads(b"{" + text)
            return f"process {who['pid']} on {who['host']} (since {who['since']})"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
