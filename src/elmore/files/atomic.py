"""Atomic writing: a new file or folder is written beside its target and then renamed, so that the
target is always complete or absent.

The temporary name is random and must be new, so that nobody can guess it and put a link there. The
writer holds a shared lock on it: what has no lock was left by a killed writer, and is removed when
its target is written again, or by `sweep`.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmore.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_WINDOWS = os.name == "nt"
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_ENDING = ".elmore-tmp"
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


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
    """An empty file to write to: renamed to `target` if the block succeeds, removed otherwise."""
    with _renamed(target, _new_file) as beside:
        yield beside


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """The same for a new folder. An existing folder is never overwritten."""
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    with _renamed(target, Path.mkdir) as beside:
        yield beside


@contextmanager
def _renamed(target: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    sweep(target.parent, target.name)
    with writing(target):
        beside, handle = _temporary(target, create)
    try:
        with writing(target):
            mode = beside.stat().st_mode & 0o666
            yield beside
            for path in (*beside.rglob("*"), beside):
                _follow_umask(path, mode)
                sync(path)
            beside.replace(target)
            sync(target.parent)
    finally:
        if handle is not None:
            os.close(handle)
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)


def _temporary(target: Path, create: Callable[[Path], None]) -> tuple[Path, int | None]:
    """A new name, and its lock if the system has locks."""
    while True:
        beside = _hidden(target)
        create(beside)
        if _WINDOWS:
            return beside, None
        if (handle := _locked(beside)) is not None:
            return beside, handle


def _hidden(target: Path) -> Path:
    """A name beside the target that nobody can guess."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}{_ENDING}")


def _locked(path: Path) -> int | None:
    """None if a second writer has taken the new file for abandoned, and removed it."""
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_SH)  # waits if the other is about to remove it
        if path.exists():
            return handle
        os.close(handle)
    return None


def _new_file(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666))


def _follow_umask(path: Path, mode: int) -> None:
    """Some libraries write files that only their owner can read."""
    if path.is_file() and path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)


def sweep(folder: Path, name: str = "") -> None:
    """Remove what killed writers have left of `name` in a folder, or of everything in it. What a
    live writer is writing stays."""
    if _WINDOWS:
        return
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name.endswith(_ENDING) and path.name.startswith(f".{name}." if name else "."):
                with suppress(OSError), _abandoned(path):
                    remove(path)


@contextmanager
def _abandoned(path: Path) -> Iterator[None]:
    """Raises OSError if the file or folder has a live writer, or if that cannot be known."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | NO_FOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


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


def discard(folder: Path) -> None:
    """Delete a folder at once: it loses its name first, so that whoever is killed meanwhile leaves
    no half of it under that name. What is left is removed by `sweep`."""
    hidden = _hidden(folder)
    try:
        folder.rename(hidden)
    except FileNotFoundError:
        return
    except PermissionError:
        if not _WINDOWS:  # there a reader has it open, and it stays
            raise
        return
    shutil.rmtree(hidden, ignore_errors=True)


def remove(path: Path) -> None:
    """Delete a file or folder that is no longer needed. Windows refuses while a reader has it open:
    it then stays until the next writer cleans up."""
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    except PermissionError:
        if not _WINDOWS:
            raise
