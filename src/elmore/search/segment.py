"""A part of an index that never changes: the uses of some sentences, sorted by word, so that all
uses of a word are one slice of a mapped file.
"""

# K kept layers, n uses, D vector dim, W words, S sentences, m uses asked for
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedding import Vectors
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder
from elmore.search.checked_files import (
    BLOCK,
    LARGEST,
    BlockFile,
    Column,
    Ints,
    Rows,
    WholeFile,
    block_sums,
    damaged,
    map_file,
)
from elmore.search.manifest import SegmentState
from elmore.search.origins import Origins, OriginTable, origin_sizes, write_origins
from elmore.store.layout import FileState
from elmore.store.precision import Codec, Stored
from elmore.store.words import pack, unpack
from elmore.uses.use import Surroundings, Use

WORDS = "words.txt"  # in the order of their uses
GROUPS = "groups.bin"  # where each word's uses begin, and the end
USES = "uses.bin"  # sentence and position
SENTENCES = "sentences.txt"
OFFSETS = "offsets.bin"  # where each sentence begins, and the end
KEYS = "keys.bin"  # hashes of sentences
STATIC = "static.bin"  # context-free vectors of words
CHECKSUMS = "checksums.bin"  # of every block of the other files, in the order of their names


def vectors_name(layer: int) -> str:
    return f"vectors-{layer}.bin"


def scales_name(layer: int) -> str:
    return f"scales-{layer}.bin"


def deleted_name(state: SegmentState) -> str:
    return f"{state.name}-deleted-{state.deleted:05}.bin"


def file_sizes(state: SegmentState, codec: Codec, dim: int) -> dict[str, int | None]:
    """Every data file and its size; None: version 2 did not tell it."""
    layers, number = range(codec.n_layers), np.dtype(codec.precision).itemsize
    is_old = state.checksums is None
    sizes: dict[str, int | None] = {
        WORDS: None if is_old else state.word_bytes,
        GROUPS: 8 * (state.words + 1),
        USES: 8 * state.uses,
        SENTENCES: None if is_old else state.text_bytes,
        OFFSETS: 8 * (state.sentences + 1),
        KEYS: 8 * state.sentences,
        STATIC: 2 * state.words * dim,
        **{vectors_name(i): state.uses * codec.dim * number for i in layers},
        **origin_sizes(state.origins, state.sentences),
    }
    if codec.precision == "int8":
        sizes |= {scales_name(i): 4 * state.uses for i in layers}
    return dict(sorted(sizes.items()))


def read_sums(
    folder: Path, state: SegmentState, sizes: dict[str, int | None]
) -> dict[str, NDArray[np.uint32]]:
    """The checksums of each file's blocks; none for a segment of version 2."""
    if state.checksums is None:
        return {}
    counts = [-(-(size or 0) // BLOCK) for size in sizes.values()]
    known = FileState(bytes=4 * sum(counts), crc32=state.checksums)
    sums = WholeFile(folder / CHECKSUMS, known).numbers(np.uint32)
    return dict(zip(sizes, np.split(sums, np.cumsum(counts)[:-1]), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A segment without its vectors and text."""

    words: Sequence[str]  # W, sorted
    word: Ints  # (n,), positions in `words`, ascending
    sentence: Ints  # (n,)
    position: Ints  # (n,)
    keys: NDArray[np.uint64]  # (S,)
    static: NDArray[np.float16]  # (W, D)
    origins: OriginTable


def write_segment(
    target: Path, table: Table, texts: Iterable[bytes], blocks: Iterable[Stored]
) -> SegmentState:
    """Write a new folder. `texts` are the packed sentences, `blocks` the vectors of the uses."""
    with atomic_folder(target) as folder:
        _write_table(folder, table)
        _write_texts(folder, texts)
        _write_vectors(folder, blocks)
        origins = write_origins(folder, table.origins)
        checksums = _write_sums(folder)
        word_bytes, text_bytes = ((folder / name).stat().st_size for name in (WORDS, SENTENCES))
    return SegmentState(
        name=target.name,
        words=len(table.words),
        uses=len(table.word),
        sentences=len(table.keys),
        word_bytes=word_bytes,
        text_bytes=text_bytes,
        checksums=checksums,
        origins=origins,
    )


def _write_table(folder: Path, table: Table) -> None:
    groups = np.searchsorted(table.word, np.arange(len(table.words) + 1))
    uses = np.stack([table.sentence, table.position], axis=1).astype(np.int32)  # (n, 2)
    (folder / WORDS).write_bytes(pack(table.words))
    (folder / GROUPS).write_bytes(groups.astype(np.int64).tobytes())
    (folder / USES).write_bytes(uses.tobytes())
    (folder / KEYS).write_bytes(table.keys.tobytes())
    (folder / STATIC).write_bytes(table.static.tobytes())


def _write_texts(folder: Path, texts: Iterable[bytes]) -> None:
    lengths = []
    with (folder / SENTENCES).open("wb") as file:
        for text in texts:
            lengths.append(file.write(text))
    offsets = np.fromiter(accumulate(lengths, initial=0), np.int64)
    (folder / OFFSETS).write_bytes(offsets.tobytes())


def _write_vectors(folder: Path, blocks: Iterable[Stored]) -> None:
    """One file per layer, with `write` and not through a memory map: a full disk is then an error
    and does not kill the process."""
    files: dict[str, IO[bytes]] = {}
    try:
        for values, scales in blocks:
            for layer in range(len(values)):
                _append(files, folder / vectors_name(layer), values[layer])
                if scales is not None:
                    _append(files, folder / scales_name(layer), scales[layer])
    finally:
        for file in files.values():
            file.close()


def _append(files: dict[str, IO[bytes]], path: Path, array: NDArray[Any]) -> None:
    if path.name not in files:
        files[path.name] = path.open("wb")
    files[path.name].write(np.ascontiguousarray(array).data)


def _write_sums(folder: Path) -> int:
    """The checksums of what was written; returns their own."""
    written = sorted(folder.iterdir(), key=lambda path: path.name)
    sums = np.concatenate([block_sums(map_file(path, None)) for path in written])
    (folder / CHECKSUMS).write_bytes(sums.tobytes())
    return zlib.crc32(sums.tobytes())


class Segment:
    """A segment in mapped memory: only what is used is read from disk."""

    def __init__(self, folder: Path, state: SegmentState, codec: Codec, dim: int):
        self.folder, self.state, self.codec = folder / state.name, state, codec
        sizes = file_sizes(state, codec, dim)
        sums = read_sums(self.folder, state, sizes)
        files = {
            name: BlockFile(self.folder / name, n_bytes, sums.get(name))
            for name, n_bytes in sizes.items()
        }
        n, layers, kind = state.uses, range(codec.n_layers), np.dtype(codec.precision)
        self._words, self._text = files[WORDS], files[SENTENCES]
        self.groups: Ints = Column(files[GROUPS], np.int64, state.words + 1)[:]
        self._offsets: Ints = Column(files[OFFSETS], np.int64, state.sentences + 1)[:]
        self.uses = Column(files[USES], np.int32, n, 2)
        self.keys = Column(files[KEYS], np.uint64, state.sentences)
        self.static = Column(files[STATIC], np.float16, state.words, dim)
        self.values = [Column(files[vectors_name(i)], kind, n, codec.dim) for i in layers]
        self.scales: list[Column] | None = None
        if codec.precision == "int8":
            self.scales = [Column(files[scales_name(i)], np.float32, n, 1) for i in layers]
        self.origins: Origins | None = None
        if state.origins is not None:
            self.origins = Origins(files, state.origins, state.sentences)
        self._check()
        self.live = self._live(folder)

    def _check(self) -> None:
        """Offsets into another file must be ascending and within it."""
        text = len(self._text.data)
        ends = (self.groups, self.state.uses, GROUPS), (self._offsets, text, OFFSETS)
        for places, end, name in ends:
            if places[0] != 0 or places[-1] > end or (np.diff(places) < 0).any():
                raise self._damaged(name, "its offsets lead nowhere")

    @cached_property
    def words(self) -> list[str]:
        return list(self._number)

    @cached_property
    def _number(self) -> dict[str, int]:
        words = self._unpacked(WORDS, self._words.read(0, len(self._words.data)))
        number = {word: i for i, word in enumerate(words)}
        if len(number) != self.state.words:
            raise self._damaged(WORDS, f"it has {len(number):,} words of {self.state.words:,}")
        return number

    def __contains__(self, word: str) -> bool:
        """Whether the word has uses that are not deleted."""
        return word in self._number and (self.live is None or len(self.rows(word)) > 0)

    @cached_property
    def live_words(self) -> list[str]:
        return self.words if self.live is None else [word for word in self.words if word in self]

    @property
    def use_counts(self) -> dict[str, int]:
        """The number of uses of each word, without the deleted ones."""
        if self.live is None:
            return dict(zip(self.words, np.diff(self.groups).tolist(), strict=True))
        return {word: len(self.rows(word)) for word in self.live_words}

    def rows(self, word: str) -> Ints:
        """The uses of a word, without the deleted ones."""
        number = self._number.get(word)
        if number is None:
            return np.zeros(0, np.int64)
        return self.living(np.arange(self.groups[number], self.groups[number + 1]))

    def living(self, rows: Ints) -> Ints:
        """These uses, without the deleted ones."""
        return rows if self.live is None else rows[self.live[self.sentences_of(rows)]]

    def sentences_of(self, rows: Rows) -> Ints:
        """The number of each use's sentence."""
        sentences: Ints = self.uses[rows][..., 0].astype(np.int64)
        if sentences.size and not 0 <= sentences.min() <= sentences.max() < self.state.sentences:
            raise self._damaged(USES, "it names sentences that do not exist")
        return sentences

    def static_vector(self, word: str) -> Vectors:
        return self._finite(STATIC, self.static[self._number[word]].astype(np.float32))  # (D,)

    def vectors(self, rows: Rows, weights: Vectors) -> Vectors:
        """Σ w_k x_k for these uses, (m, D)."""
        total: Vectors | None = None
        with np.errstate(invalid="ignore", over="ignore"):  # of a damaged file, told below
            for k in np.flatnonzero(weights):
                part = self.values[k][rows].astype(np.float32)  # (m, D)
                part *= weights[k] if self.scales is None else weights[k] * self.scales[k][rows]
                total = part if total is None else total + part
        if total is None:
            raise AssertionError("a view has at least one layer")
        return self._finite(vectors_name(0), total)

    def stored(self, rows: Ints) -> Stored:
        """The numbers as they are on disk, (K, m, D) and (K, m, 1)."""
        scales = None if self.scales is None else np.stack([part[rows] for part in self.scales])
        return Stored(np.stack([part[rows] for part in self.values]), scales)

    def packed(self, sentence: int) -> bytes:
        if not 0 <= sentence < self.state.sentences:
            raise self._damaged(USES, "it names sentences that do not exist")
        return self._text.read(int(self._offsets[sentence]), int(self._offsets[sentence + 1]))

    def use(self, row: int, number: int) -> Use:
        """A use; `number` is what the index calls it."""
        sentence, position = self.uses[row].tolist()
        words = self._unpacked(SENTENCES, self.packed(sentence))
        if not 0 <= position < len(words):
            raise self._damaged(USES, "it names words that do not exist")
        origin = None if self.origins is None else self.origins.of(sentence)
        return Use(tuple(words), position, id=number, origin=origin)

    def surroundings(self, row: int) -> Surroundings | None:
        """The passage of a use, if it is known."""
        return None if self.origins is None else self.origins.surroundings(int(self.uses[row][0]))

    def find(self, key: int, packed: bytes) -> list[int]:
        """The numbers of a sentence, which may be repeated; without deleted ones."""
        same = self.keys[:] == np.uint64(key)
        live = same if self.live is None else same & self.live
        return [n for n in np.flatnonzero(live).tolist() if self.packed(n) == packed]

    def _live(self, folder: Path) -> NDArray[np.bool_] | None:
        """Which sentences are not deleted; None: all."""
        if not self.state.deleted:
            return None
        path = folder / deleted_name(self.state)
        live = np.ones(self.state.sentences, np.bool_)
        deleted = WholeFile(path, self.state.deletions).numbers(np.int64)
        if len(deleted) and not 0 <= deleted.min() <= deleted.max() < len(live):
            raise damaged(path, "it names sentences that do not exist")
        live[deleted] = False
        return live

    # Damage that only files without checksums can have ------------------------------------------

    def _unpacked(self, name: str, data: bytes) -> list[str]:
        try:
            return unpack(data)
        except UnicodeDecodeError:
            raise self._damaged(name, "it is not UTF-8") from None

    def _finite(self, name: str, vectors: Vectors) -> Vectors:
        if self.state.checksums is None and not (np.abs(vectors) < LARGEST).all():
            raise self._damaged(name, "a vector has an impossible number")
        return vectors

    def _damaged(self, name: str, what: str) -> FormatError:
        return damaged(self.folder / name, what)
