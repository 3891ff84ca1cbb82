"""Keys that HDF5 can hold, and a disk whose failures are not lost on the way."""

import io
import json
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.dump.lines import Item
from elmore.dump.writers import JsonlWriter, sentence_key
from elmore.files.hdf5_file import Disk, hdf5_file


@pytest.mark.parametrize(
    ("sentence", "key"),
    [
        ("plain words .", "plain words ."),
        ("1 / 2", "1 ∕ 2"),
        (".", "․"),
        ("...", "․․․"),
        (". .", ". ."),
        ("a\0b", "a␀b"),
    ],
)
def test_a_key_is_the_sentence_without_what_hdf5_takes_for_a_path(
    tmp_path: Path, sentence: str, key: str
):
    assert sentence_key(sentence) == key
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file[key] = [1.0]
        assert list(file) == [key]


class Nowhere(io.RawIOBase):
    """Counts what is written and keeps nothing."""

    n_bytes = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.n_bytes += len(data)
        return len(data)


def test_a_long_sentence_becomes_json_with_one_vector_in_memory():
    n_words, out = 3_000, Nowhere()
    vectors = np.random.default_rng(0).normal(size=(3, n_words, 64)).astype(np.float32)
    item = Item(0, "", ["w"] * n_words, vectors)
    tracemalloc.start()
    try:
        JsonlWriter(out).add(item)  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert out.n_bytes > 5_000_000
    assert peak < 1_000_000  # of which the words take a quarter; it was 190 kB per word


@pytest.mark.parametrize("shape", [(2, 3, 2), (3, 2), (2, 0, 2), (0, 2)])
def test_json_has_the_shortest_numbers_that_give_the_vectors_again(shape: tuple[int, ...]):
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    out = io.BytesIO()
    JsonlWriter(out).add(Item(4, "ü", ["ü"], vectors))
    found = json.loads(out.getvalue())
    assert found["index"] == 4
    np.testing.assert_array_equal(np.array(found["layers"], np.float32).reshape(shape), vectors)
    layers = str(vectors.astype(str).tolist()).replace("'", "")
    assert out.getvalue().decode() == f'{{"index": 4, "words": ["ü"], "layers": {layers}}}\n'


class FullAfter(io.FileIO):
    """A file that takes `room` writes, half of each at a time, and then no more."""

    room = 10_000

    def write(self, data: memoryview) -> int:
        if self.room == 0:
            raise OSError(28, "No space left on device")
        self.room -= 1
        return super().write(data[: max(1, len(data) // 2)])


def test_writes_that_take_a_part_only_are_finished(tmp_path: Path):
    array = np.arange(30_000, dtype=np.float32)
    with FullAfter(tmp_path / "a.hdf5", "w+") as raw, h5py.File(Disk(raw), "w") as file:
        file["a"] = array
    with h5py.File(tmp_path / "a.hdf5") as file:
        np.testing.assert_array_equal(file["a"], array)


@pytest.mark.parametrize("room", [0, 1, 20, 100])
def test_a_failed_write_is_remembered_until_somebody_asks(tmp_path: Path, room: int):
    with FullAfter(tmp_path / "a.hdf5", "w+") as raw:
        raw.room = room
        disk = Disk(raw)
        with h5py.File(disk, "w") as file:
            for i in range(300):
                file[str(i)] = np.ones(100, dtype=np.float32)
        with pytest.raises(OSError, match="No space left"):
            disk.check()


def test_a_file_that_was_written_whole_opens_as_any_other(tmp_path: Path):
    with hdf5_file(tmp_path / "a.hdf5") as (file, disk):
        for i in range(500):
            file[str(i)] = np.full(7, i, dtype=np.float32)
            disk.check()
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert len(file) == 500
        assert all((file[str(i)][...] == i).all() for i in range(500))
