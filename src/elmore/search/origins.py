"""Where the sentences of a segment stand: file, line, and the passage around each. The text of a
passage is stored once, however many of its sentences are indexed.
"""

# S sentences, P passages
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.search.checked_files import BlockFile, Column, Ints
from elmore.search.manifest import OriginState
from elmore.store.words import pack, unpack
from elmore.uses.use import Origin, Surroundings

ORIGINS = "origins.bin"  # of each sentence: its passage, begin and end there, file, line
PASSAGES = "passages.txt"
PASSAGE_OFFSETS = "passage-offsets.bin"  # where each passage begins, and the end
FILES = "files.txt"
_COLUMNS = 5
UNKNOWN = (-1, 0, 0, 0, 0)


class TextPlace(NamedTuple):
    """A sentence in its passage; begin and end are in bytes, and equal if they are not known."""

    file: str
    line: int
    passage: bytes
    begin: int
    end: int


class OriginTable(NamedTuple):
    """The origins of the sentences of a segment, to be written."""

    rows: NDArray[np.int32]  # (S, 5)
    passages: Iterable[bytes]
    files: Sequence[str]


class PendingOrigins:
    """Origins of sentences that will become a segment."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._passages: list[bytes] = []
        self._files: dict[str, int] = {}

    def add(self, place: TextPlace | None) -> int:
        """The origin of the next sentence; returns how many bytes are kept for it."""
        if place is None:
            self._rows.append(UNKNOWN)
            return 0
        is_new = not self._passages or self._passages[-1] != place.passage
        if is_new:
            self._passages.append(place.passage)
        file = self._files.setdefault(place.file, len(self._files))
        self._rows.append((len(self._passages) - 1, place.begin, place.end, file, place.line))
        return len(place.passage) if is_new else 0

    def table(self) -> OriginTable:
        return OriginTable(np.array(self._rows, np.int32), self._passages, list(self._files))


def origin_sizes(state: OriginState | None, n_sentences: int) -> dict[str, int | None]:
    """The files and their sizes; none if no origin is known."""
    if state is None:
        return {}
    return {
        ORIGINS: 4 * _COLUMNS * n_sentences,
        PASSAGES: state.passage_bytes,
        PASSAGE_OFFSETS: 8 * (state.passages + 1),
        FILES: state.file_bytes,
    }


def write_origins(folder: Path, table: OriginTable) -> OriginState | None:
    """Nothing is written if no origin is known."""
    if not (table.rows[:, 0] >= 0).any():
        return None
    with (folder / PASSAGES).open("wb") as file:
        lengths = [file.write(passage) for passage in table.passages]
    offsets = np.fromiter(accumulate(lengths, initial=0), np.int64)
    (folder / ORIGINS).write_bytes(table.rows.astype(np.int32).tobytes())
    (folder / PASSAGE_OFFSETS).write_bytes(offsets.tobytes())
    names = pack(table.files)
    (folder / FILES).write_bytes(names)
    return OriginState(passages=len(lengths), passage_bytes=sum(lengths), file_bytes=len(names))


class Origins:
    """The origins of a segment in mapped memory."""

    def __init__(self, files: dict[str, BlockFile], state: OriginState, n_sentences: int):
        self.rows = Column(files[ORIGINS], np.int32, n_sentences, _COLUMNS)
        self._text, self._names = files[PASSAGES], files[FILES]
        self._offsets = Column(files[PASSAGE_OFFSETS], np.int64, state.passages + 1)

    @cached_property
    def files(self) -> list[str]:
        return unpack(self._names.read(0, len(self._names.data)))

    def passage(self, number: int) -> bytes:
        begin, end = self._offsets[number : number + 2].tolist()
        return self._text.read(begin, end)

    def of(self, sentence: int) -> Origin | None:
        passage, begin, end, file, line = self.rows[sentence].tolist()
        if passage < 0:
            return None
        start = int(self._offsets[passage])
        text = _decoded(self._text.read(start + begin, start + end))
        return Origin(self.files[file], line, text)

    def surroundings(self, sentence: int) -> Surroundings | None:
        passage, begin, end, _, _ = self.rows[sentence].tolist()
        if passage < 0:
            return None
        whole = self.passage(passage)
        return Surroundings(*map(_decoded, (whole[:begin], whole[begin:end], whole[end:])))


def merged(origins: Sequence[Origins | None], starts: Ints, sentences: Ints) -> OriginTable:
    """Those of some sentences, which are numbered across segments; `starts` are the numbers of
    the first sentences of the segments."""
    segment = np.searchsorted(starts, sentences, side="right") - 1  # (S,)
    rows = np.tile(np.array(UNKNOWN, np.int32), (len(sentences), 1))  # (S, 5)
    files: dict[str, int] = {}
    for i, some in enumerate(origins):
        if some is not None:
            ours = segment == i
            rows[ours] = some.rows[sentences[ours] - starts[i]]
            numbers = [files.setdefault(name, len(files)) for name in some.files]
            rows[ours, 3] = np.array(numbers, np.int32)[rows[ours, 3]]
    known = rows[:, 0] >= 0
    pairs = np.stack([segment, rows[:, 0]], axis=1)[known]
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    rows[known, 0] = inverse.ravel()
    return OriginTable(rows, _passages(origins, distinct), list(files))


def _passages(origins: Sequence[Origins | None], distinct: Ints) -> Iterator[bytes]:
    for segment, passage in distinct.tolist():
        some = origins[segment]
        assert some is not None
        yield some.passage(passage)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")
