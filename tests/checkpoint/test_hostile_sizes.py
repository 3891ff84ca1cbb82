"""Sizes that a file declares and does not hold, in the formats that allow it: each is refused in
one line before memory is taken."""

import json
import os
import resource
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmore.checkpoint.archive import unpacked
from elmore.checkpoint.crc32c import crc32c
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.native import save_tensors
from elmore.checkpoint.sources import load, save
from elmore.checkpoint.tensor_bundle import TensorBundle
from elmore.errors import FormatError
from elmore.files.atomic import atomic_file
from tests.checkpoint.table_writer import HEADER, block, entry, masked, table, write
from tests.tiny_models import Tiny, make

BEFORE = Path(__file__).parents[1] / "before" / "models"


def peak_memory() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# TensorFlow ---------------------------------------------------------------------------------------


def overlapping(folder: Path, n: int) -> Path:
    data = np.arange(256, dtype=np.float32).tobytes()
    one = entry((256,), crc=masked(crc32c(data)), offset=0, size=len(data))
    entries = [HEADER, *((b"t%06d" % i, one) for i in range(n))]
    return write(folder, table([block(entries)]), data)


def test_tensors_that_share_their_bytes_are_refused(tmp_path: Path):
    assert len(TensorBundle.open(overlapping(tmp_path, 1)).read("t000000")) == 256
    with pytest.raises(FormatError, match="lists 2048 bytes of tensors in it, so they overlap"):
        TensorBundle.open(overlapping(tmp_path, 2)).read("t000000")


# HDF5 ---------------------------------------------------------------------------------------------


def complaint(tiny: Tiny) -> str:
    before = peak_memory()
    with pytest.raises(FormatError) as caught:
        read_hdf5(tiny.weights, tiny.options_path)
    assert peak_memory() - before < 256 << 20
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_one_dataset_under_many_names_is_counted_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("elmore.checkpoint.hdf5._SPARE", 0)
    monkeypatch.setattr("elmore.checkpoint.hdf5._RATIO", 1)
    tiny = make(tmp_path)
    read_hdf5(tiny.weights, tiny.options_path)
    options = json.loads(tiny.options_path.read_text())
    options["lstm"]["n_layers"] = 40
    tiny.options_path.write_text(json.dumps(options))
    with h5py.File(tiny.weights, "a") as file:
        for direction in (0, 1):
            cells = file[f"RNN_{direction}/RNN/MultiRNNCell"]
            for layer in range(2, 40):
                cells[f"Cell{layer}"] = cells["Cell1"]
    assert "damaged or hostile" in complaint(tiny)


def replace(tiny: Tiny, change: Callable[[h5py.File], None]) -> Tiny:
    with h5py.File(tiny.weights, "a") as file:
        del file["char_embed"]
        change(file)
    return tiny


def test_a_piece_that_is_larger_than_its_dataset_is_refused(tmp_path: Path):
    def change(file: h5py.File) -> None:
        file.create_dataset(
            "char_embed", (261, 4), "f4", chunks=(1 << 20, 256), maxshape=(None, None)
        )

    assert "damaged or hostile" in complaint(replace(make(tmp_path), change))


def test_a_piece_that_unpacks_to_more_than_it_declares_is_refused(tmp_path: Path):
    def change(file: h5py.File) -> None:
        made = file.create_dataset(
            "char_embed", (261, 4), "f4", chunks=(261, 4), compression="gzip"
        )
        made.id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 30), 9))

    assert "unpacks to more than it declares" in complaint(replace(make(tmp_path), change))


@pytest.mark.parametrize("settings", [{"compression": "gzip", "shuffle": True}, {"shuffle": True}])
def test_weights_that_are_compressed_as_usual_are_read(tmp_path: Path, settings: dict[str, object]):
    tiny = make(tmp_path)
    expected = read_hdf5(tiny.weights, tiny.options_path).fingerprint()
    with h5py.File(tiny.weights, "a") as file:
        values = file["char_embed"][...]
        del file["char_embed"]
        file.create_dataset("char_embed", data=values, **settings)
    assert read_hdf5(tiny.weights, tiny.options_path).fingerprint() == expected


# Archives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\0", "\0config.json"])
def test_a_zip_member_without_a_name_is_refused(tmp_path: Path, name: str):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x" * len(name), b"{}")
    raw = (tmp_path / "a.zip").read_bytes().replace(b"x" * len(name), name.encode())
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(FormatError, match=r"a\.zip: contains ''"), unpacked(tmp_path / "a.zip"):
        pass


def test_a_compression_that_takes_memory_as_it_says_is_refused(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("config.json", b"{}")
    with pytest.raises(FormatError, match="expected none or deflate"), unpacked(tmp_path / "a.zip"):
        pass


# elmore's own folder ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [("div_value", 1e-12), ("div_value", 0.0), ("cutoffs", [5, 3]), ("cutoffs", [0])],
)
def test_an_adaptive_softmax_of_impossible_sizes(tmp_path: Path, setting: str, value: object):
    save(load(BEFORE / "adaptive", heads=True), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["heads"]["softmax"][setting] = value
    path.write_text(json.dumps(config))
    before = peak_memory()
    with pytest.raises(FormatError, match=r"softmax\.safetensors: "):
        load(tmp_path / "model", heads=True)
    assert peak_memory() - before < 256 << 20


@pytest.mark.parametrize(
    ("model", "keys", "value"),
    [
        ("transformer", ("context", "n_layers"), 10**9),
        ("characters", ("context", "n_layers"), 10**9),
        ("characters", ("words", "filters"), [[1, 1]] * 10**6),
        ("characters", ("words", "n_highway"), 10**9),
        ("characters", ("context", "cell_dim"), 10**30),
    ],
)
def test_a_config_that_would_take_forever_to_build(
    tmp_path: Path, model: str, keys: tuple[str, str], value: object
):
    save(load(BEFORE / model), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["model"][keys[0]][keys[1]] = value
    path.write_text(json.dumps(config))
    with pytest.raises(FormatError):
        load(tmp_path / "model")


def test_a_header_without_end_is_not_read(tmp_path: Path):
    save(load(BEFORE / "characters"), tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    path.write_bytes((90 << 20).to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(FormatError, match=r"a header of 94,371,840 bytes"):
        load(tmp_path / "model")


# Modes --------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_written_models_follow_the_umask(tmp_path: Path, umask: int, mode: int):
    checkpoint = load(BEFORE / "adaptive", heads=True)
    before = os.umask(umask)
    try:
        save(checkpoint, tmp_path / "model")
        with atomic_file(tmp_path / "a.safetensors") as path:
            save_tensors({"a": torch.ones(2)}, path)
    finally:
        os.umask(before)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in found} == {
        path.name: oct(mode) for path in found
    }
