"""Archives from strangers (.tar.gz, .zip), unpacked into a folder that lasts as long as a block.
Only files a model is made of come out; their names cannot leave the folder, and their sizes are
held against the archive's own while they are being written.
"""

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from elmore.errors import FormatError

_MAGIC = {b"\x1f\x8b": "gzip", b"PK": "zip"}
_MAX_MEMBERS = 10_000
_RATIO, _FLOOR = 50, 1 << 24  # weights hardly shrink, word lists to a fifth; small files may more
_MAX_BYTES = 1 << 36
_PIECE = 1 << 20
_WANTED = {
    ".json", ".th", ".txt", ".hdf5", ".h5", ".pkl", ".dic", ".index", ".safetensors",
    ".options_file",
}  # fmt: skip


def is_archive(path: Path) -> bool:
    """By how the file begins; names lie."""
    return _kind(path) is not None


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A temporary folder with the archive's model files, gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="elmore-") as folder:
        budget = _Budget(archive)
        try:
            if _kind(archive) == "zip":
                _unpack_zip(archive, Path(folder), budget)
            else:
                _unpack_tar(archive, Path(folder), budget)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise _damaged(archive, error) from None
        except (ValueError, RuntimeError, NotImplementedError, OverflowError) as error:
            raise _damaged(archive, error) from None  # headers that make no sense
        except OSError as error:
            raise FormatError(f"{archive}: cannot be unpacked ({error}).") from None
        yield Path(folder)


class _Budget:
    """How many bytes may still come out of an archive of this size."""

    def __init__(self, archive: Path):
        self.archive = archive
        self.left = min(_FLOOR + _RATIO * archive.stat().st_size, _MAX_BYTES)

    def spend(self, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise FormatError(
                f"{self.archive}: unpacks to over {_RATIO} times its size; damaged or hostile."
            )


class _Stream(Protocol):
    """All that is asked of a file here."""

    def read(self, n_bytes: int, /) -> bytes: ...


class _Counted:
    """A stream that spends from the budget whatever is read, wanted or not."""

    def __init__(self, stream: _Stream, budget: _Budget):
        self.stream, self.budget = stream, budget

    def read(self, n_bytes: int, /) -> bytes:
        piece = self.stream.read(min(n_bytes, _PIECE))
        self.budget.spend(len(piece))
        return piece


def _unpack_tar(archive: Path, folder: Path, budget: _Budget) -> None:
    with gzip.open(archive) as stream:
        counted = _Counted(stream, budget)
        with tarfile.open(fileobj=counted, mode="r|", bufsize=1 << 16) as tar:  # type: ignore[call-overload]
            for n, member in enumerate(tar):
                _check_count(archive, n)
                if member.isdir():
                    continue
                target = _target(archive, folder, member.name)
                if not member.isreg() or member.issparse():
                    raise FormatError(
                        f"{archive}: '{member.name}' is a link or a device; expected plain files."
                    )
                if target is not None:
                    source = tar.extractfile(member)
                    assert source is not None
                    with target.open("xb") as file:
                        shutil.copyfileobj(source, file, _PIECE)
        while counted.read(_PIECE):  # the checksum stands at the very end
            pass


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as container:
        for n, member in enumerate(container.infolist()):
            _check_count(archive, n)
            if member.is_dir():
                continue
            target = _target(archive, folder, member.filename)
            if (member.external_attr >> 28) not in (0, 0o10):  # the Unix kind: none or a file
                raise FormatError(
                    f"{archive}: '{member.filename}' is a link or a device; expected plain files."
                )
            if member.flag_bits & 1:
                raise FormatError(
                    f"{archive}: '{member.filename}' asks for a password; unpack it yourself and "
                    "name the folder."
                )
            if target is not None:
                with container.open(member) as source, target.open("xb") as file:
                    counted = _Counted(source, budget)
                    while piece := counted.read(_PIECE):
                        file.write(piece)


def _target(archive: Path, folder: Path, name: str) -> Path | None:
    """Where a member goes, None if no model is made of such files."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.parts:
        raise FormatError(
            f"{archive}: holds {name!r:.80}, a path that leads out of the archive; not unpacked."
        )
    if not _is_wanted(path):
        return None
    target = folder.joinpath(*path.parts)
    if target.exists():
        raise FormatError(f"{archive}: holds '{name}' twice.")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _is_wanted(path: PurePosixPath) -> bool:
    """By its ending; TensorFlow also has `checkpoint` and `model.ckpt-N.data-00000-of-00001`."""
    special = path.name == "checkpoint" or ".data-" in path.name
    return path.suffix in _WANTED or special


def _check_count(archive: Path, n: int) -> None:
    if n >= _MAX_MEMBERS:
        raise FormatError(f"{archive}: over {_MAX_MEMBERS:,} files; expected a model's few.")


def _kind(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return _MAGIC.get(file.read(2))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None


def _damaged(archive: Path, error: Exception) -> FormatError:
    return FormatError(f"{archive}: damaged, or no archive of its kind ({error!s:.120}).")
