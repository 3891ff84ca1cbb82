"""A corpus as piece ids in three mapped files, made once per run: so that any sentence of any
document can be had at any time, and a text much larger than memory can be trained on.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.config import Frozen
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_folder, remove
from elmore.files.checked import read_settings, write_checked
from elmore.pretrain.config import Asked
from elmore.pretrain.masked_instances import Ids
from elmore.pretrain.sentences import Counting, ReadingConfig, Words, read_documents
from elmore.small_files import file_sha256
from elmore.text.wordpiece import Pieces

PIECES, SENTENCES, DOCUMENTS = "pieces.bin", "sentences.npy", "documents.npy"
CHECKSUMS = "checksums.json"
BREAK = -1
"""Between two sentences, where ids of several stand in one array."""
_ANEW = "start the run anew"
_MOST_PIECES = 2048  # a longer document is cut, so that a shuffled part of the corpus has many
_BUFFER = 1 << 20  # pieces
_COUNTED = 1 << 24  # pieces: a copy of so many is made

Sentence = Sequence[int]


class Checksums(Frozen):
    """Of the files of a corpus: a piece that has changed would be trained on without a word."""

    sha256: dict[str, str]

    @classmethod
    def of(cls, folder: Path) -> "Checksums":
        names = (PIECES, SENTENCES, DOCUMENTS)
        return cls(sha256={name: file_sha256(folder / name) for name in names})

    def check(self, folder: Path) -> None:
        for name, found in Checksums.of(folder).sha256.items():
            if self.sha256.get(name) != found:
                raise FormatError(f"{folder / name}: damaged, its checksum differs; {_ANEW}.")


class PieceCorpus:
    """Documents of sentences of piece ids, mapped from a folder."""

    def __init__(self, folder: Path):
        try:
            self._sentences: NDArray[np.int64] = np.load(folder / SENTENCES, mmap_mode="r")
            self._documents: NDArray[np.int64] = np.load(folder / DOCUMENTS, mmap_mode="r")
            self._pieces = np.memmap(folder / PIECES, dtype=np.uint32, mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise FormatError(f"{folder}: cannot be read ({error}); {_ANEW}.") from None
        if (folder / CHECKSUMS).exists():  # an earlier version did not write them
            read_settings(folder / CHECKSUMS, Checksums, remedy=_ANEW).check(folder)
        fits = self._sentences.ndim == self._documents.ndim == 1
        fits = fits and len(self._sentences) > 1 and len(self._documents) > 1
        if not fits or self._sentences[-1] != len(self._pieces):
            raise FormatError(f"{folder}: its files do not belong together; {_ANEW}.")

    def __len__(self) -> int:
        return len(self._documents) - 1

    @property
    def n_pieces(self) -> int:
        return len(self._pieces)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Pieces of every sentence."""
        return np.diff(self._sentences)

    def sentence(self, i: int) -> Ids:
        first, last = self._sentences[i : i + 2]
        return self._pieces[first:last].astype(np.int64)

    def part(self, first: int, last: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Pieces first … last - 1 of the whole corpus, and the number of each one's sentence."""
        sentences = np.searchsorted(self._sentences, np.arange(first, last), side="right")
        return self._pieces[first:last].astype(np.int32), sentences

    def chunks(self, n: int, *marks: int) -> Iterator[NDArray[np.int64]]:
        """Parts of `n` pieces, with `marks` and `BREAK` after every sentence; one at the end of a
        part is cut there."""
        after = [*marks, BREAK]
        for start in range(0, self.n_pieces, n):
            ids, sentences = self.part(start, min(start + n, self.n_pieces))
            ends = np.flatnonzero(np.diff(sentences)) + 1
            places = np.repeat(ends, len(after))
            yield np.insert(ids.astype(np.int64), places, np.tile(after, len(ends)))

    def counts(self, n: int) -> NDArray[np.int64]:
        """How often each of `n` pieces occurs."""
        counts = np.zeros(n, np.int64)
        for start in range(0, self.n_pieces, _COUNTED):
            counts += np.bincount(self._pieces[start : start + _COUNTED], minlength=n)
        return counts

    def document(self, i: int) -> list[Ids]:
        first, last = self._documents[i : i + 2]
        ends = np.asarray(self._sentences[first : last + 1])
        pieces = self._pieces[ends[0] : ends[-1]].astype(np.int64)
        return np.split(pieces, ends[1:-1] - ends[0])


def write_texts(
    asked: Asked, texts: dict[str, list[Path]], pieces: Callable[[Words], list[Pieces]]
) -> None:
    """Texts as piece ids, each in a folder of the run."""
    asked.output.mkdir(parents=True, exist_ok=True)
    for name, paths in texts.items():
        remove(asked.output / name)  # of a run that ended before its first checkpoint
        if paths:
            sentences = read_pieces(paths, asked.config.reading, pieces)
            write_corpus(cut_documents(sentences), asked.output / name, asked.counting)


def write_corpus(
    documents: Iterable[Iterable[Sentence]], folder: Path, counting: Counting | None = None
) -> None:
    """A new folder, complete or absent. `counting` is told the pieces so far."""
    ends, starts = array("q", [0]), array("q", [0])
    with atomic_folder(folder) as beside:
        with (beside / PIECES).open("wb") as file:
            for document in documents:
                buffer = array("I")
                for sentence in document:
                    buffer.extend(sentence)
                    ends.append(ends[-1] + len(sentence))
                    if len(buffer) > _BUFFER:
                        buffer.tofile(file)
                        buffer = array("I")
                buffer.tofile(file)
                if len(ends) - 1 > starts[-1]:
                    starts.append(len(ends) - 1)
                if counting is not None:
                    counting(ends[-1], "pieces")
        if len(starts) == 1:
            raise InputError("The corpus has no sentence; expected one per line.")
        np.save(beside / SENTENCES, np.frombuffer(ends, dtype=np.int64))
        np.save(beside / DOCUMENTS, np.frombuffer(starts, dtype=np.int64))
        write_checked(beside / CHECKSUMS, Checksums.of(beside))


def read_pieces(
    paths: Iterable[Path], reading: ReadingConfig, pieces: Callable[[Words], list[Pieces]]
) -> Iterator[Sentence | None]:
    """Sentences as piece ids; None between documents."""
    for path in paths:
        for words in read_documents(path, reading):
            found = None if words is None else pieces(words)
            yield None if found is None else [piece for word in found for piece in word]
        yield None


def cut_documents(sentences: Iterable[Sentence | None]) -> Iterator[list[Sentence]]:
    """None ends a document."""
    document: list[Sentence] = []
    n_pieces = 0
    for sentence in sentences:
        if sentence:
            document.append(sentence)
            n_pieces += len(sentence)
        if (sentence is None or n_pieces >= _MOST_PIECES) and document:
            yield document
            document, n_pieces = [], 0
    if document:
        yield document
