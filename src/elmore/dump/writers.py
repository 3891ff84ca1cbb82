"""One class per file format: items are added one at a time, and nothing is held in memory."""

# L layers, n words, D vector dim
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from elmore.dump.windows import Item, SentenceMap, Window

MAP = "sentence_to_index"
SENTENCE = "sentence"  # the attribute that keeps a sentence whose key had to be altered


class Writer(Protocol):
    """A file being filled."""

    def add(self, item: Item) -> bool:
        """Store an item; False when a key forbids it: its sentence is blank or there already."""
        ...

    def finish(self, sentence_map: str | None) -> None: ...


@dataclass(slots=True)
class Tally:
    """What has been written so far."""

    words: int = 0
    blank: int = 0
    repeated: int = 0
    """Sentences that a key allowed only once."""

    def add(self, window: Window, writer: Writer, sentence_map: SentenceMap) -> None:
        """Write a window, and count it."""
        for item in window.items:
            stored = writer.add(item)
            sentence_map.add(item.sentence, item.index)
            self.words += len(item.words)
            self.blank += not item.sentence
            self.repeated += bool(item.sentence) and not stored


def sentence_key(sentence: str) -> str:
    """The sentence with what no HDF5 name can hold replaced by a character that looks like it."""
    if set(sentence) == {"."}:
        return "․" * len(sentence)  # one dot leaders
    return sentence.replace("/", "∕").replace("\0", "␀")


def _key(item: Item, use_sentence_keys: bool) -> str:
    return sentence_key(item.sentence) if use_sentence_keys else str(item.index)


class Hdf5Writer:
    """AllenNLP's layout: a dataset per line, and `sentence_to_index`."""

    def __init__(self, file: h5py.File, disk: "Disk", use_sentence_keys: bool):
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
    """NumPy's archive: a .npy member per line under the names HDF5 would have."""

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
        with self._archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


class JsonlWriter:
    """A JSON object a line, floats as short as float32 allows."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def add(self, item: Item) -> bool:
        words = json.dumps(item.words, ensure_ascii=False)
        layers = _nested(item.vectors.astype(str))  # float32's shortest spelling
        line = f'{{"index": {item.index}, "words": {words}, "layers": {layers}}}\n'
        self._file.write(line.encode())
        return True

    def finish(self, sentence_map: str | None) -> None:
        self._file.flush()


def _nested(numbers: NDArray[np.str_]) -> str:
    parts = numbers.tolist() if numbers.ndim == 1 else [_nested(part) for part in numbers]
    return f"[{', '.join(parts)}]"


# Files ------------------------------------------------------------------------------------------


@contextmanager
def hdf5_file(path: Path) -> Iterator[tuple[h5py.File, "Disk"]]:
    """A new HDF5 file whose every write is known to have reached the system."""
    with path.open("w+b", buffering=0) as raw:
        disk = Disk(raw)
        with h5py.File(disk, "w") as file:
            yield file, disk
        disk.check()


class Disk:
    """The file under an HDF5 file. The HDF5 library loses some write errors and crashes after
    others, so it is told that all went well, and whoever fills the file asks `check`."""

    def __init__(self, raw: io.FileIO):
        self._raw = raw
        self._error: OSError | None = None

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: memoryview) -> int:
        try:
            done = 0
            while self._error is None and done < len(data):
                done += self._raw.write(data[done:]) or 0
        except OSError as error:
            self._error = error
        return len(data)

    def truncate(self, size: int) -> int:
        try:
            self._raw.truncate(size)
        except OSError as error:
            self._error = self._error or error
        return size

    def readinto(self, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer) and (got := self._raw.readinto(buffer[done:])):
            done += got
        return done

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(size) or b""

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def flush(self) -> None:
        """Nothing waits: the file is unbuffered."""
