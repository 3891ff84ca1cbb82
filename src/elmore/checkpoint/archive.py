"""Archives (.tar.gz, .tar.bz2, .zip) from untrusted sources, unpacked into a temporary folder. Only
the files of a model are unpacked; their names cannot lead out of the folder, and their sizes are
limited relative to the archive's while they are written.
"""

import bz2
import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

from elmore.errors import FormatError
from elmore.text.vocabulary import VOCABULARY_GZ

_MAGIC = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"PK": "zip"}
_MAX_MEMBERS = 10_000
_RATIO, _FLOOR = 50, 1 << 24  # weights hardly shrink, word lists to a fifth; small files may more
_MAX_BYTES = 1 << 36
_PIECE = 1 << 20
_WANTED = {
    ".json", ".th", ".txt", ".hdf5", ".h5", ".pkl", ".dic", ".index", ".safetensors",
    ".options_file", ".weight_file",
}  # fmt: skip


PACKED_ENDINGS = (".tar.gz", ".tgz", ".zip")
"""Of archives that are written; which are read is told by their first bytes."""


def pack(folder: Path, target: Path, *, zipped: bool) -> None:
    """All files of a folder, inside of a folder of its name; the same files, the same bytes."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    inside = [PurePosixPath(folder.name, *path.relative_to(folder).parts) for path in paths]
    if zipped:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as container:
            for path, name in zip(paths, inside, strict=True):
                member = zipfile.ZipInfo(str(name))  # dated 1980
                member.external_attr = 0o100644 << 16
                member.compress_type = zipfile.ZIP_DEFLATED
                with path.open("rb") as file, container.open(member, "w", force_zip64=True) as out:
                    shutil.copyfileobj(file, out, _PIECE)
        return
    with (
        target.open("wb") as plain,
        gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path, name in zip(paths, inside, strict=True):
            entry = tarfile.TarInfo(str(name))
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)


def is_archive(path: Path) -> bool:
    """By the first bytes, not by the name."""
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
            raise _damaged(archive, error) from None  # invalid headers
        except OSError as error:
            raise FormatError(f"{archive}: cannot be unpacked ({error}).") from None
        yield Path(folder)


class _Budget:
    """How many bytes may still come out of an archive of this size."""

    def __init__(self, archive: Path):
        self.archive = archive
        self.left = min(_FLOOR + _RATIO * archive.stat().st_size, _MAX_BYTES)

    def read(self, stream: IO[bytes], n_bytes: int = _PIECE) -> bytes:
        piece = stream.read(min(n_bytes, _PIECE))
        self.left -= len(piece)
        if self.left < 0:
            raise FormatError(
                f"{self.archive}: unpacks to over {_RATIO} times its size; damaged or hostile."
            )
        return piece


class _Counted:
    """A stream that counts all bytes that are read, wanted or not."""

    def __init__(self, stream: IO[bytes], budget: _Budget):
        self.stream, self.budget = stream, budget

    def read(self, n_bytes: int, /) -> bytes:
        return self.budget.read(self.stream, n_bytes)


def _unpack_tar(archive: Path, folder: Path, budget: _Budget) -> None:
    with bz2.open(archive) if _kind(archive) == "bzip2" else gzip.open(archive) as stream:
        counted = _Counted(cast(IO[bytes], stream), budget)
        with tarfile.open(fileobj=counted, mode="r|", bufsize=1 << 16) as tar:  # type: ignore[call-overload]
            for n, member in enumerate(tar):
                _check_count(archive, n)
                if member.isdir():
                    continue
                plain = member.isreg() and not member.issparse()
                target = _target(archive, folder, member.name, plain)
                if target is not None:
                    source = tar.extractfile(member)
                    assert source is not None
                    with target.open("xb") as file:
                        shutil.copyfileobj(source, file, _PIECE)
        while counted.read(_PIECE):  # the checksum is at the very end
            pass


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as container:
        for n, member in enumerate(container.infolist()):
            _check_count(archive, n)
            if member.filename.endswith("/"):
                continue
            plain = member.external_attr >> 28 in (0, 0o10)  # the Unix kind: none or a file
            target = _target(archive, folder, member.filename, plain)
            if member.flag_bits & 1:
                raise FormatError(
                    f"{archive}: '{member.filename}' asks for a password; unpack it yourself and "
                    "name the folder."
                )
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FormatError(
                    f"{archive}: '{member.filename}' has compression {member.compress_type}; "
                    "expected none or deflate, the usual one."
                )
            if target is not None:
                with container.open(member) as source, target.open("xb") as file:
                    while piece := budget.read(source):
                        file.write(piece)


def _target(archive: Path, folder: Path, name: str, plain: bool) -> Path | None:
    """Where a member goes, None if it is no file of a model. It must be a plain file."""
    path = PurePosixPath(name)
    odd = any(mark in name for mark in ("\\", ":", "\0"))
    if path.is_absolute() or ".." in path.parts or odd or not path.parts:
        raise FormatError(
            f"{archive}: contains {name!r:.80}, a path that leads out of the archive; not unpacked."
        )
    if not plain:
        raise FormatError(f"{archive}: '{name}' is a link or a device; expected plain files.")
    # TensorFlow also has `checkpoint` and `model.ckpt-N.data-00000-of-00001`.
    special = path.name in ("checkpoint", VOCABULARY_GZ) or ".data-" in path.name
    if path.suffix not in _WANTED and not special:
        return None
    target = folder.joinpath(*path.parts)
    if target.exists():
        raise FormatError(f"{archive}: contains '{name}' twice.")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _check_count(archive: Path, n: int) -> None:
    if n >= _MAX_MEMBERS:
        raise FormatError(f"{archive}: over {_MAX_MEMBERS:,} files; expected the few of a model.")


def _kind(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return _MAGIC.get(file.read(2))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None


def _damaged(archive: Path, error: Exception) -> FormatError:
    return FormatError(f"{archive}: damaged, or not an archive of this kind ({error!s:.120}).")
