"""Where published models are kept, and what is known about their files.

CACHE/models/NAME/FILE      as published; files fetched by hand are put here too
CACHE/checksums/NAME.json   size and SHA-256 of each file at its first download; stays when a model
                            is removed, so that a file that has changed since is noticed
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from elmore.config import Frozen
from elmore.errors import ConfigError, FormatError
from elmore.files.atomic import writing
from elmore.files.checked import read_checked, write_checked
from elmore.published.catalog import Published
from elmore.small_files import open_regular

CACHE, OFFLINE = "ELMORE_CACHE", "ELMORE_OFFLINE"
_VERSION = 1
_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class FileRecord(Frozen):
    """A file as it was when it first came."""

    bytes: int
    sha256: str


class Record(Frozen):
    """The files of one model."""

    version: int = _VERSION
    files: dict[str, FileRecord]


def cache_folder() -> Path:
    """`ELMORE_CACHE`, or `elmore` in the user's cache (`XDG_CACHE_HOME`)."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path("~/.cache").expanduser()) / "elmore"


def is_offline() -> bool:
    """Whether `ELMORE_OFFLINE` forbids every download."""
    value = os.environ.get(OFFLINE, "").strip().lower()
    if value not in (*_YES, *_NO):
        raise ConfigError(f"{OFFLINE} is {value!r}; expected 1 or 0.")
    return value in _YES


@dataclass(frozen=True, slots=True)
class CachedModel:
    """One published model's place in the cache."""

    model: Published
    cache: Path

    @property
    def folder(self) -> Path:
        return self.cache / "models" / self.model.name

    @property
    def _record(self) -> Path:
        return self.cache / "checksums" / f"{self.model.name}.json"

    def missing(self) -> list[str]:
        """Files that are not there yet."""
        return [f.name for f in self.model.files if not (self.folder / f.name).is_file()]

    def size(self) -> int:
        """Bytes of its files that are there."""
        there = [self.folder / f.name for f in self.model.files]
        return sum(path.stat().st_size for path in there if path.is_file())

    def record(self) -> Record:
        if not self._record.is_file():
            return Record(files={})
        remedy = "remove it, and the files count as new"
        return read_checked(
            self._record, Record, _VERSION, called="a record of downloads", remedy=remedy
        )

    def note(self, name: str, found: FileRecord) -> None:
        """Keep what a file was like."""
        with writing(self._record):
            self._record.parent.mkdir(parents=True, exist_ok=True)
        files = {**self.record().files, name: found}
        write_checked(self._record, Record(files=files))

    def check(self, *, thoroughly: bool = False) -> None:
        """Compare the files with their record: sizes, or every byte. A file without a record was
        put there by hand: it gets one now."""
        known = self.record().files
        for file in self.model.files:
            path, expected = self.folder / file.name, known.get(file.name)
            if expected is None:
                self.note(file.name, measured(path))
            elif path.stat().st_size != expected.bytes:
                raise _differs(path, f"{path.stat().st_size:,} bytes", f"{expected.bytes:,}")
            elif thoroughly and (found := measured(path)) != expected:
                raise _differs(path, f"SHA-256 {found.sha256[:12]}…", f"{expected.sha256[:12]}…")


def measured(path: Path) -> FileRecord:
    try:
        with open_regular(path) as file:
            return FileRecord(
                bytes=os.fstat(file.fileno()).st_size,
                sha256=hashlib.file_digest(file, "sha256").hexdigest(),
            )
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None


def _differs(path: Path, found: str, expected: str) -> FormatError:
    return FormatError(
        f"{path}: {found}, but {expected} at the first download; damaged. Remove it and run "
        f"`elmore download {path.parent.name}`."
    )
