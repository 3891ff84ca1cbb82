"""The files that names and globs stand for, and the lines of plain or compressed text files,
streamed with one line in memory at a time. Every error names the file and the line.
"""

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, cast

from elmore.errors import InputError

Errors = Literal["strict", "replace"]

STDIN = "-"
COMPRESSED = (".gz", ".xz", ".zst")
MAX_LINE_BYTES = 1 << 28  # no sentence is that long; it is probably a binary file
_MOST_MEMORY = 1 << 29  # that a compressed file may ask for
_PIECE = 1 << 16
_BOM = b"\xef\xbb\xbf"
_DAMAGE: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
with suppress(ImportError):
    from zstandard import ZstdError

    _DAMAGE += (ZstdError,)


def find_files(patterns: Iterable[str | Path], *, read_once: bool = False) -> list[Path]:
    """The files of each pattern, sorted; a pattern without files is an error. What is read only
    once may also be a pipe, and `-` is standard input."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        path = Path(pattern)
        if str(pattern) == STDIN and not read_once:
            raise InputError("The text is read more than once; give files, not - (stdin).")
        named = path.exists() and not path.is_dir() if read_once else path.is_file()
        paths = [path] if named or str(pattern) == STDIN else _globbed(path)
        if not paths:
            raise InputError(f"{pattern}: no such file; expected text, .gz, .xz or .zst files.")
        for path in paths:
            found.setdefault(path.resolve(), path)  # a file with two names counts once
    return list(found.values())


def _globbed(path: Path) -> list[Path]:
    root = Path(path.anchor)
    try:
        inside = str(path.relative_to(root)) if path.is_absolute() else str(path)
        return sorted(p for p in root.glob(inside) if p.is_file())
    except (IndexError, ValueError, NotImplementedError):  # not a valid pattern
        return []


def read_lines(path: str | Path, *, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file without line ends; `-` is standard input."""
    with _open(path) as file:
        for number, line in enumerate(_raw_lines(file, path), start=1):
            text = line.removeprefix(_BOM) if number == 1 else line
            yield _decode(text.rstrip(b"\r\n"), path, number, errors)


def _raw_lines(file: IO[bytes], path: str | Path) -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(MAX_LINE_BYTES)
        except _DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise InputError(
                f"{path}, line {number}: the compressed data ends or is damaged here ({reason}). "
                "Download or compress the file again."
            ) from None
        if not line:
            return
        if len(line) == MAX_LINE_BYTES:
            raise InputError(
                f"{path}, line {number}: over {MAX_LINE_BYTES:,} bytes without a line end; "
                "expected one sentence per line."
            )
        yield line


def _decode(line: bytes, path: str | Path, number: int, errors: Errors) -> str:
    try:
        return line.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at position "
            f"{error.start}). Convert the file to UTF-8, or use --errors replace where a command "
            "has it."
        ) from None


@contextmanager
def _open(path: str | Path) -> Iterator[IO[bytes]]:
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("-: standard input is closed; give a file, or pipe text into it.")
        yield sys.stdin.buffer
        return
    path = Path(path)
    try:
        file = _opened(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    with file:
        yield file


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".xz":
        file = path.open("rb")
        return io.BufferedReader(_Unpacked(file, _xz_pieces(file)), buffer_size=1 << 20)
    if path.suffix == ".zst":
        return _opened_zst(path)
    return path.open("rb")


def _opened_zst(path: Path) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise InputError(f"{path}: reading .zst needs: pip install 'elmore[zst]'") from None
    file, decompressor = path.open("rb"), zstandard.ZstdDecompressor(max_window_size=_MOST_MEMORY)
    return io.BufferedReader(_Unpacked(file, _zst_pieces(file, decompressor)), buffer_size=1 << 20)


class _Unpacked(io.RawIOBase):
    """Pieces of decompressed data as a file."""

    def __init__(self, file: IO[bytes], pieces: Iterator[bytes]):
        self._file, self._pieces, self._rest = file, pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


def _xz_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Like lzma.open, but a file cannot ask for more memory than a corpus needs."""
    data = b""
    while True:  # one stream after another
        stream = lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
        while not stream.eof:
            if stream.needs_input and not (data := data or file.read(_PIECE)):
                raise EOFError("the last stream is truncated")
            yield stream.decompress(data, max_length=_PIECE)
            data = b""
        data = stream.unused_data.lstrip(b"\0") or file.read(_PIECE).lstrip(b"\0")  # padding
        if not data:
            return


def _zst_pieces(file: IO[bytes], decompressor: Any) -> Iterator[bytes]:
    """The frames. zstandard's own reader does not notice a truncated file."""
    frame, data = None, b""
    while data := data or file.read(1 << 12):  # small: data can grow about 30,000 times
        frame = frame or decompressor.decompressobj()
        yield frame.decompress(data)
        data = frame.unused_data if frame.eof else b""
        frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the last frame is truncated")
