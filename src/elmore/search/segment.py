"""A part of an index that never changes: the uses of some sentences, sorted by word, so that all
uses of a word are one slice of a mapped file.
"""

# K kept layers, n uses, D vector dim, W words, S sentences, m uses asked for
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
from elmore.search.manifest import SegmentState
from elmore.store.precision import Codec, Stored
from elmore.store.snapshot import mapped
from elmore.store.words import pack, unpack

Ints = NDArray[np.int64]
Rows = slice | Ints

WORDS = "words.txt"  # in the order of their uses
GROUPS = "groups.bin"  # where each word's uses begin, and the end
USES = "uses.bin"  # sentence and position
SENTENCES = "sentences.txt"
OFFSETS = "offsets.bin"  # where each sentence begins, and the end
KEYS = "keys.bin"  # hashes of sentences
STATIC = "static.bin"  # context-free vectors of words


def vectors_name(layer: int) -> str:
    return f"vectors-{layer}.bin"


def scales_name(layer: int) -> str:
    return f"scales-{layer}.bin"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A segment without its vectors and text."""

    words: Sequence[str]  # W, sorted
    word: Ints  # (n,), positions in `words`, ascending
    sentence: Ints  # (n,)
    position: Ints  # (n,)
    keys: NDArray[np.uint64]  # (S,)
    static: NDArray[np.float16]  # (W, D)


def write_segment(
    target: Path, table: Table, texts: Iterable[bytes], blocks: Iterable[Stored]
) -> SegmentState:
    """Write a new folder. `texts` are the packed sentences, `blocks` the vectors of the uses."""
    with atomic_folder(target) as folder:
        _write_table(folder, table)
        _write_texts(folder, texts)
        _write_vectors(folder, blocks)
    return SegmentState(
        name=target.name,
        words=len(table.words),
        uses=len(table.word),
        sentences=len(table.keys),
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


class Segment:
    """A segment in mapped memory: only what is used is read from disk."""

    def __init__(self, folder: Path, state: SegmentState, codec: Codec, dim: int):
        self.folder, self.state, self.codec = folder / state.name, state, codec
        n, layers = state.uses, range(codec.n_layers)
        self.groups = self._array(GROUPS, np.int64, (state.words + 1,))
        self.uses = self._array(USES, np.int32, (n, 2))
        self.keys = self._array(KEYS, np.uint64, (state.sentences,))
        self.static = self._array(STATIC, np.float16, (state.words, dim))  # (W, D)
        self._offsets = self._array(OFFSETS, np.int64, (state.sentences + 1,))
        self._text = self._bytes(SENTENCES, int(self._offsets[-1]))
        kind = np.dtype(codec.precision)
        self.values = [self._array(vectors_name(i), kind, (n, codec.dim)) for i in layers]
        self.scales: list[Vectors] | None = None
        if codec.precision == "int8":
            self.scales = [self._array(scales_name(i), np.float32, (n, 1)) for i in layers]
        self.live = self._live(folder)
        self._check()

    def _check(self) -> None:
        """Offsets into another file must be ascending and within it."""
        ends = (self.groups, self.state.uses, GROUPS), (self._offsets, len(self._text), OFFSETS)
        for places, end, name in ends:
            if places[0] != 0 or places[-1] > end or (np.diff(places) < 0).any():
                raise FormatError(f"{self.folder / name}: damaged; build the index again.")

    @cached_property
    def words(self) -> list[str]:
        return unpack((self.folder / WORDS).read_bytes())

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __contains__(self, word: str) -> bool:
        """Whether the word has uses that are not deleted."""
        return word in self._number and (self.live is None or len(self.rows(word)) > 0)

    @cached_property
    def live_words(self) -> list[str]:
        return self.words if self.live is None else [word for word in self.words if word in self]

    def rows(self, word: str) -> Ints:
        """The uses of a word, without the deleted ones."""
        number = self._number.get(word)
        if number is None:
            return np.zeros(0, np.int64)
        rows = np.arange(self.groups[number], self.groups[number + 1])
        return rows if self.live is None else rows[self.live[self.uses[rows, 0]]]

    def static_vector(self, word: str) -> Vectors:
        vector: Vectors = self.static[self._number[word]].astype(np.float32)
        return vector  # (D,)

    def vectors(self, rows: Rows, weights: Vectors) -> Vectors:
        """Σ w_k x_k for these uses, (m, D)."""
        total: Vectors | None = None
        for k in np.flatnonzero(weights):
            part = self.values[k][rows].astype(np.float32)  # (m, D)
            part *= weights[k] if self.scales is None else weights[k] * self.scales[k][rows]
            total = part if total is None else total + part
        if total is None:
            raise AssertionError("a view has at least one layer")
        return total

    def stored(self, rows: Ints) -> Stored:
        """The numbers as they are on disk, (K, m, D) and (K, m, 1)."""
        scales = None if self.scales is None else np.stack([part[rows] for part in self.scales])
        return Stored(np.stack([part[rows] for part in self.values]), scales)

    def packed(self, sentence: int) -> bytes:
        data: bytes = self._text[self._offsets[sentence] : self._offsets[sentence + 1]]
        return data

    def sentence(self, sentence: int) -> tuple[str, ...]:
        return tuple(unpack(self.packed(sentence)))

    def find(self, key: int, packed: bytes) -> list[int]:
        """The numbers of a sentence, which may be repeated; without deleted ones."""
        same = self.keys == np.uint64(key)
        live = same if self.live is None else same & self.live
        return [n for n in np.flatnonzero(live).tolist() if self.packed(n) == packed]

    def _live(self, folder: Path) -> NDArray[np.bool_] | None:
        """Which sentences are not deleted; None: all."""
        if not self.state.deleted:
            return None
        path = folder / deleted_name(self.state)
        live = np.ones(self.state.sentences, np.bool_)
        deleted = np.frombuffer(path.read_bytes(), np.int64)
        if len(deleted) and not 0 <= deleted.min() <= deleted.max() < len(live):
            raise FormatError(f"{path}: damaged; build the index again.")
        live[deleted] = False
        return live

    def _array(self, name: str, kind: Any, shape: tuple[int, ...]) -> Any:
        kind = np.dtype(kind)
        data = self._bytes(name, int(np.prod(shape)) * kind.itemsize)
        return np.frombuffer(data, kind).reshape(shape)

    def _bytes(self, name: str, n_bytes: int) -> Any:
        path = self.folder / name
        data = mapped(path, n_bytes)
        if len(data) < n_bytes:
            if not path.exists():
                raise FileNotFoundError(path)
            raise FormatError(
                f"{path}: truncated, {len(data):,} bytes of {n_bytes:,} are left; restore it from "
                "a copy, or build the index again."
            )
        return data


def deleted_name(state: SegmentState) -> str:
    return f"{state.name}-deleted-{state.deleted:05}.bin"
