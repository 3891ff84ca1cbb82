"""Atomic writing: a new file or folder is written beside its target and then renamed, so that the
target is always complete or absent.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmore.errors import InputError

_WINDOWS = os.name == "nt"
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


class ReadOnlyError(InputError):
    """It can be read but not written."""


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Report an OSError in the block, such as a full disk, as an error about `target`, the name
    that the user gave."""
    try:
        yield
    except OSError as error:
        kind = ReadOnlyError if error.errno in _NOT_ALLOWED else InputError
        raise kind(f"{target}: cannot be written ({error.strerror or error}).") from None


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """A path to write to: renamed to `target` if the block succeeds, removed otherwise."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.elmore-tmp")
    try:
        with writing(target):
            yield beside
            for path in (*beside.rglob("*"), beside):
                sync(path)
            beside.replace(target)
            sync(target.parent)
    finally:
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """The same for a new folder. An existing folder is never overwritten."""
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    with atomic_file(target) as beside:
        beside.mkdir()
        yield beside


def write_text(target: Path, text: str) -> None:
    """Write a text file in UTF-8 atomically."""
    with atomic_file(target) as beside:
        beside.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until the disk has what was written, so that no rename overtakes its contents."""
    if _WINDOWS and path.is_dir():  # Windows cannot open a folder
        return
    handle = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Delete a file or folder that is no longer needed. Windows refuses while a reader has it open:
    it then stays until the next writer cleans up."""
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    except PermissionError:
        if not _WINDOWS:
            raise
