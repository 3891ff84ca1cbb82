"""One class per file format. Items are written one at a time and not kept in memory."""

# L layers, n words, D vector dim
import json
import zipfile
from dataclasses import dataclass
from typing import IO, Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from elmore.dump.lines import Item, SentenceMap, Window
from elmore.embedding import Vectors
from elmore.errors import InputError
from elmore.files.hdf5_file import Disk

MAP = "sentence_to_index"
_MAX_NAME = 65_535 - len(".npy")  # bytes of a name in a zip
SENTENCE = "sentence"  # the attribute with the original sentence, where the key had to differ


class DumpWriter(Protocol):
    """A file that is being written."""

    def add(self, item: Item) -> bool:
        """Write an item; False if its sentence cannot be a key: it is blank or repeated."""
        ...

    def finish(self, sentence_map: str | None) -> None: ...


@dataclass(slots=True)
class Tally:
    """Counts of what has been written so far; `lines` is the number of lines read."""

    lines: int = 0
    words: int = 0
    blank: int = 0
    repeated: int = 0
    """Sentences that were written only once because they are keys."""

    def add(self, window: Window, writer: DumpWriter, sentence_map: SentenceMap) -> None:
        """Write a window and count it."""
        self.lines = window.lines
        for item in window.items:
            stored = writer.add(item)
            sentence_map.add(item.sentence, item.index)
            self.words += len(item.words)
            self.blank += not item.sentence
            self.repeated += bool(item.sentence) and not stored


def sentence_key(sentence: str) -> str:
    """The sentence, with characters that HDF5 names cannot have replaced by similar ones."""
    if set(sentence) == {"."}:
        return "․" * len(sentence)  # one dot leaders
    return sentence.replace("/", "∕").replace("\0", "␀")


def _key(item: Item, use_sentence_keys: bool) -> str:
    return sentence_key(item.sentence) if use_sentence_keys else str(item.index)


class Hdf5Writer:
    """AllenNLP's layout: one dataset per line, and `sentence_to_index`."""

    def __init__(self, file: h5py.File, disk: Disk, use_sentence_keys: bool):
        self._file, self._disk, self._by_sentence = file, disk, use_sentence_keys

    def add(self, item: Item) -> bool:
        key = _key(item, self._by_sentence)
        if self._by_sentence and (not key or key in self._file):
            return False
        dataset = self._file.create_dataset(key, data=item.vectors)
        if self._by_sentence and key != item.sentence:
            dataset.attrs[SENTENCE] = item.sentence.replace("\0", "␀")
        self._disk.check()
        return True

    def finish(self, sentence_map: str | None) -> None:
        if sentence_map is not None:
            dataset = self._file.create_dataset(MAP, (1,), dtype=h5py.string_dtype())
            dataset[0] = sentence_map


class NpzWriter:
    """NumPy's archive: one .npy member per line, with the same names as in HDF5."""

    def __init__(self, archive: zipfile.ZipFile, use_sentence_keys: bool):
        self._archive, self._by_sentence = archive, use_sentence_keys

    def add(self, item: Item) -> bool:
        key = _key(item, self._by_sentence)
        if self._by_sentence and (not key or f"{key}.npy" in self._archive.NameToInfo):
            return False
        self._write(key, item.vectors)
        return True

    def finish(self, sentence_map: str | None) -> None:
        if sentence_map is not None:
            self._write(MAP, np.array([sentence_map]))

    def _write(self, key: str, array: NDArray[Any]) -> None:
        if len(key.encode()) > _MAX_NAME:
            raise InputError(
                f"A sentence of {len(key.encode()):,} bytes ({key[:40]!r}…) cannot be a key in "
                f".npz: {_MAX_NAME:,} at most; remove --use-sentence-keys."
            )
        with self._archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


class JsonlWriter:
    """One JSON object per line; each float32 as its shortest decimal number."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def add(self, item: Item) -> bool:
        words = json.dumps(item.words, ensure_ascii=False)
        self._file.write(f'{{"index": {item.index}, "words": {words}, "layers": '.encode())
        self._nested(item.vectors)
        self._file.write(b"}\n")
        return True

    def finish(self, sentence_map: str | None) -> None:
        self._file.flush()

    def _nested(self, numbers: Vectors) -> None:
        """Vector by vector: as text, a number takes thirty times as much memory."""
        if numbers.ndim == 1:
            self._file.write(f"[{', '.join(numbers.astype(str).tolist())}]".encode())
            return
        for i, part in enumerate(numbers):
            self._file.write(b", " if i else b"[")
            self._nested(part)
        self._file.write(b"]" if len(numbers) else b"[]")
