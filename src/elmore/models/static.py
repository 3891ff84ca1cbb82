"""Static word vectors, one per word, the same in every sentence: GloVe's and word2vec's text,
word2vec's binary, and `.npz` with `words` and `vectors`. Text may be compressed, binary by gzip.
"""

# V words, D vector dim
import gzip
import hashlib
import mmap
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError
from elmore.files.text_file import read_lines

_MAX_HEADER = 100  # bytes


@dataclass(frozen=True)
class StaticVectors:
    """A table of vectors; words are looked up as written, then in lower case."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]  # (V, D)

    @classmethod
    def load(cls, path: Path) -> "StaticVectors":
        """The format follows from the name: .npz, .bin, anything else is text."""
        kind = Path(path.stem).suffix if path.suffix in (".gz", ".xz", ".zst") else path.suffix
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


def _read_npz(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except KeyError as error:
        raise FormatError(f"{path}: {error}; expected the arrays `words` and `vectors`.") from None
    except (OSError, ValueError, TypeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise FormatError(f"{path}: not a readable .npz file ({error}).") from None
    kinds = words.dtype.kind in "US" and vectors.dtype.kind in "fiu"
    if not kinds or vectors.ndim != 2 or words.shape != vectors.shape[:1]:
        raise FormatError(
            f"{path}: words {words.shape} of {words.dtype} and vectors {vectors.shape} of "
            f"{vectors.dtype}; expected as many texts as rows of numbers."
        )
    texts = np.char.decode(words, "utf-8", "replace") if words.dtype.kind == "S" else words
    return texts.tolist(), vectors.astype(np.float32)


def _read_text(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """A word and its numbers per line; word2vec begins with a line of two counts."""
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    promised = dim = 0
    for number, line in enumerate(read_lines(path, errors="replace"), start=1):
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(f.isdigit() for f in fields):
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
        rows.append(row)
    if promised > len(words):
        raise _cut(path, promised, len(words))
    return words, np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _numbers(fields: list[str]) -> NDArray[np.float32]:
    """Empty if one of them is not a number."""
    try:
        return np.array(fields, dtype=np.float32)
    except ValueError:
        return np.empty(0, np.float32)


def _read_binary(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """word2vec's: a line of two counts, then word, space, float32 numbers."""
    data = _bytes(path)
    start = data.find(b"\n") + 1
    header = bytes(data[:start]).split() if start <= _MAX_HEADER else []
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise FormatError(f"{path}: no counts of words and numbers on its first line.")
    n_words, dim = int(header[0]), int(header[1])
    if not dim or n_words * (4 * dim + 1) > len(data):
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
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: cannot be read ({error}).") from None


def _cut(path: Path, promised: int, found: int) -> FormatError:
    return FormatError(
        f"{path}: ends after {found:,} of the {promised:,} words that its first line announces; "
        "download it again."
    )
