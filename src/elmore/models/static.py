"""Static word vectors, one per word, the same in every sentence: GloVe's and word2vec's text,
word2vec's binary, and `.npz` with `words` and `vectors`. Text may be compressed, binary by gzip.
"""

# V words, D vector dim
import gzip
import hashlib
import math
import mmap
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError
from elmore.files.text_file import COMPRESSED, read_lines
from elmore.small_files import open_regular

Numbers = NDArray[np.float32]

_MAX_HEADER = 100  # bytes
_MAX_DIGITS = 15  # of a count
_SPARE, _RATIO = 1 << 26, 8  # bytes beyond so many times the file
_HEADERS = {  # of arrays in .npz files, by the version of their format
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class StaticVectors:
    """A table of vectors; words are looked up as written, then in lower case."""

    words: tuple[str, ...]
    vectors: Numbers  # (V, D)

    @classmethod
    def load(cls, path: Path) -> "StaticVectors":
        """The format follows from the name: .npz, .bin, anything else is text."""
        kind = Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
        read = {".npz": _read_npz, ".bin": _read_binary}.get(kind, _read_text)
        words, vectors = read(path)
        if not vectors.size:
            raise FormatError(f"{path}: no vectors; expected a word and its numbers per line.")
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise FormatError(
                f"{path}: word {row + 1:,}, {words[row][:40]!r}, contains NaN or infinite "
                "values; correct or remove it."
            )
        return cls(tuple(words), vectors)

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(self.vectors).data)
        return digest.hexdigest()

    @cached_property
    def _rows(self) -> dict[str, int]:
        rows: dict[str, int] = {}
        for row, word in enumerate(self.words):
            rows.setdefault(word, row)  # files list frequent words first
        return rows

    def row(self, word: str) -> int | None:
        """The word's row, or that of its lower case; None when neither is listed."""
        found = self._rows.get(word)
        return self._rows.get(word.lower()) if found is None else found


def write_word2vec(path: Path, rows: Iterable[tuple[str, Any]], n_words: int, dim: int) -> None:
    """word2vec's text: both sizes, then a word and its numbers per line, so that float32 reads the
    same numbers back."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{n_words} {dim}\n")
        for word, row in rows:
            file.write(f"{word} {' '.join(f'{number:.9g}' for number in row)}\n")


@dataclass
class _Budget:
    """How many bytes a file may still unpack to: vectors hardly shrink, word lists to a fifth."""

    path: Path
    left: int

    @classmethod
    def of(cls, path: Path) -> "_Budget":
        try:
            return cls(path, _SPARE + _RATIO * path.stat().st_size)
        except (OSError, ValueError) as error:
            raise FormatError(f"{path}: cannot be read ({error}).") from None

    def spend(self, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise FormatError(
                f"{self.path}: unpacks to over {_RATIO} times its size; damaged or hostile."
            )


def _read_npz(path: Path) -> tuple[list[str], Numbers]:
    budget = _Budget.of(path)
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            words = _array(archive, "words", "US", 1, budget)
            vectors = _array(archive, "vectors", "fiu", 2, budget)
        if len(words) != len(vectors):
            raise FormatError(
                f"{path}: {len(words):,} words and {len(vectors):,} vectors; expected as many "
                "texts as rows of numbers."
            )
        texts = np.char.decode(words, "utf-8", "replace") if words.dtype.kind == "S" else words
        with np.errstate(over="ignore"):  # infinite numbers are refused later, with their word
            return texts.tolist(), vectors.astype(np.float32)
    except FormatError:
        raise
    except Exception as error:  # a damaged header of an array can raise anything
        reason = str(error) or type(error).__name__
        raise FormatError(f"{path}: not a readable .npz file ({reason:.120}).") from None


def _array(
    archive: zipfile.ZipFile, name: str, kinds: str, n_axes: int, budget: _Budget
) -> NDArray[Any]:
    """One array. Its header is believed only if the archive has as many bytes as it declares."""
    found = {member.filename: member for member in archive.infolist()}.get(f"{name}.npy")
    if found is None or found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FormatError(f"{budget.path}: no {name}; expected the arrays `words` and `vectors`.")
    budget.spend(found.file_size)
    with archive.open(found) as file:
        read_header = _HEADERS[np.lib.format.read_magic(file)]
        shape, _, dtype = read_header(file)
        declared = math.prod(shape) * dtype.itemsize
        fits = declared == found.file_size - file.tell() and min(shape, default=1) >= 0
    if dtype.kind not in kinds or len(shape) != n_axes or not fits:
        raise FormatError(
            f"{budget.path}: {name} has shape {shape!s:.80} of {dtype!s:.80} in "
            f"{found.file_size:,} bytes; expected as many texts as rows of numbers."
        )
    with archive.open(found) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _read_text(path: Path) -> tuple[list[str], Numbers]:
    """A word and its numbers per line; word2vec begins with a line of two counts."""
    words: list[str] = []
    numbers = bytearray()
    promised = dim = 0
    budget = _Budget.of(path) if path.suffix in COMPRESSED else None
    for number, line in enumerate(read_lines(path, errors="replace"), start=1):
        if budget is not None:
            budget.spend(len(line))
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(map(_is_count, fields)):
            promised, dim = (int(field) for field in fields)
            continue
        dim = dim or len(fields) - 1
        word, row = fields[:-dim], _numbers(fields[-dim:])
        # some words contain spaces, but a word that ends in a number means another line length
        if not any(word) or len(row) != dim or (len(word) > 1 and len(_numbers(word[-1:]))):
            raise FormatError(
                f"{path}, line {number}: {line[:40]!r}…; expected a word and {dim} numbers, as "
                "the first line has or says, split by spaces."
            )
        words.append(" ".join(word))
        numbers += row.tobytes()
    if promised > len(words):
        raise _cut(path, promised, len(words))
    return words, np.frombuffer(numbers, np.float32).reshape(len(words), dim if words else 0)


def _is_count(field: str) -> bool:
    return field.isascii() and field.isdigit() and len(field) <= _MAX_DIGITS


def _numbers(fields: list[str]) -> Numbers:
    """Empty if one of them is not a number."""
    try:
        with np.errstate(over="ignore"):
            return np.array(fields, dtype=np.float32)
    except ValueError:
        return np.empty(0, np.float32)


def _read_binary(path: Path) -> tuple[list[str], Numbers]:
    """word2vec's: a line of two counts, then word, space, float32 numbers."""
    data = _bytes(path)
    start = data.find(b"\n") + 1
    header = bytes(data[:start]).decode("latin-1").split() if start <= _MAX_HEADER else []
    if len(header) != 2 or not all(map(_is_count, header)):
        raise FormatError(f"{path}: no counts of words and numbers on its first line.")
    n_words, dim = int(header[0]), int(header[1])
    if not n_words or not dim or n_words * (4 * dim + 1) > len(data):
        raise _cut(path, n_words, len(data) // (4 * dim + 1))
    vectors = np.empty((n_words, dim), np.float32)
    words = []
    for i in range(n_words):
        space = data.find(b" ", start)
        numbers = data[space + 1 : space + 1 + 4 * dim]
        if space < 0 or len(numbers) < 4 * dim:
            raise _cut(path, n_words, i)
        words.append(bytes(data[start:space]).removeprefix(b"\n").decode("utf-8", "replace"))
        vectors[i] = np.frombuffer(numbers, dtype="<f4")
        start = space + 1 + 4 * dim
    return words, vectors


def _bytes(path: Path) -> bytes | mmap.mmap:
    try:
        with open_regular(path) as file:
            if path.suffix != ".gz":
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            budget, pieces = _Budget.of(path), []
            with gzip.open(file) as unpacked:
                while piece := unpacked.read(1 << 20):
                    budget.spend(len(piece))
                    pieces.append(piece)
            return b"".join(pieces)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: cannot be read ({error}).") from None


def _cut(path: Path, promised: int, found: int) -> FormatError:
    return FormatError(
        f"{path}: ends after {found:,} of the {promised:,} words that its first line announces; "
        "download it again."
    )
