"""Writing that is either finished or not there: beside the target first, then one rename."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmore.errors import InputError

_WINDOWS = os.name == "nt"
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """A path to write to: renamed to `target` when the block ends well, removed otherwise."""
    beside = _beside(target)
    try:
        yield beside
        sync(beside)
        beside.replace(target)
        sync(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from None
    finally:
        beside.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """A text file in UTF-8."""
    with atomic_file(target) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """The same for a new folder. An existing one is never written over."""
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    beside = _beside(target)
    try:
        beside.mkdir()
        yield beside
        for file in beside.rglob("*"):
            sync(file)
        sync(beside)
        beside.rename(target)
        sync(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until the disk holds what was written, so that no rename comes before its contents."""
    if _WINDOWS and path.is_dir():  # cannot be opened there
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


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.elmore-tmp")


class ReadOnlyError(InputError):
    """It can be read, and nothing can be added to it."""


def cannot_write(target: Path, error: OSError) -> InputError:
    """A full disk, a missing folder, a right that is lacking: said of the name the user gave."""
    kind = ReadOnlyError if error.errno in _NO_RIGHT else InputError
    return kind(f"{target}: cannot be written ({error.strerror or error}).")
