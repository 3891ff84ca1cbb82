"""The checkpoint reader against files of TensorFlow itself, and against tables written by hand
for what TensorFlow rarely writes. Damaged and hostile files: test_tensor_bundle_hostile.py.

data/tf_bundle was made by scripts/write_tensor_bundle.py; its values follow from `wave`.
"""

from __future__ import annotations

import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint.crc32c import crc32c
from elmore.checkpoint.tensor_bundle import TensorBundle, latest_checkpoint
from elmore.errors import FormatError
from tests.checkpoint.table_writer import (
    HEADER,
    block,
    compress,
    entry,
    float_entries,
    masked,
    table,
    write,
)

DATA = Path(__file__).parent / "data" / "tf_bundle"
LSTM = {"kernel": (6, 16), "bias": (16,), "projection/kernel": (4, 3)}
BILM_SHAPES = {
    "lm/char_embed": (261, 2),
    "lm/CNN/W_cnn_0": (1, 1, 2, 3),
    "lm/CNN/b_cnn_0": (3,),
    "lm/CNN/W_cnn_1": (1, 2, 2, 4),
    "lm/CNN/b_cnn_1": (4,),
    **{f"lm/CNN_high_0/W_{gate}": (7, 7) for gate in ("carry", "transform")},
    **{f"lm/CNN_high_0/b_{gate}": (7,) for gate in ("carry", "transform")},
    "lm/CNN_proj/W_proj": (7, 3),
    "lm/CNN_proj/b_proj": (3,),
    **{
        f"lm/RNN_{d}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell/{part}": shape
        for d in (0, 1)
        for layer in (0, 1)
        for part, shape in LSTM.items()
    },
    "lm/softmax/W": (20, 3),
    "lm/softmax/b": (20,),
}


def wave(name: str, shape: tuple[int, ...]) -> np.ndarray:
    start, step = divmod(zlib.crc32(name.encode()), 97)
    flat = np.arange(np.prod(shape, dtype=int)) * (step + 1) + start
    return (flat % 101 - 50).reshape(shape) / 64


def bilm_values() -> dict[str, np.ndarray]:
    both = {f"{name}{slot}": shape for name, shape in BILM_SHAPES.items() for slot in SLOTS}
    waves = {name: wave(name, shape).astype(np.float32) for name, shape in both.items()}
    return waves | {"global_step": np.array(1234, np.int64)}


SLOTS = ("", "/Adagrad")
BILM_VALUES = bilm_values()
MANY = {f"some/longer/name_{n:03}": wave(str(n), (n % 4, 3)).astype(np.float32) for n in range(60)}


# --- what TensorFlow writes


def test_every_tensor_of_a_bilm_checkpoint_in_two_data_files_is_read():
    bundle = TensorBundle.open(latest_checkpoint(DATA / "bilm"))
    assert bundle.names == sorted(BILM_VALUES)
    for name, value in BILM_VALUES.items():
        assert bundle.shape(name) == value.shape
        assert bundle.dtype(name) == str(value.dtype)
        assert bundle.read(name).dtype == value.dtype
        np.testing.assert_array_equal(bundle.read(name), value)


@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "scalar", "empty"]
)
def test_every_supported_type_is_read(name: str):
    bundle = TensorBundle.open(DATA / "dtypes" / "model.ckpt-1234")
    odd = {"scalar": np.float32(0.5), "empty": np.zeros((0, 4), np.float32)}
    value = bundle.read(name)
    np.testing.assert_array_equal(value, odd.get(name, wave(name, (3, 5)) * 64), strict=False)
    assert isinstance(value, np.ndarray)
    assert value.dtype == {"int32": "i4", "int64": "i8", "float64": "f8", "float16": "f2"}.get(
        name, "f4"
    )
    assert bundle.dtype(name) == (name if name not in odd else "float32")


@pytest.mark.parametrize("name", ["bool", "string"])
def test_other_types_are_refused_only_when_read(name: str):
    bundle = TensorBundle.open(DATA / "dtypes" / "model.ckpt-1234")
    assert bundle.dtype(name) == name
    with pytest.raises(FormatError, match=f"model.ckpt-1234.index: tensor '{name}' is of type"):
        bundle.read(name)


def test_a_partitioned_tensor_is_named_once_and_refused_when_read():
    bundle = TensorBundle.open(DATA / "partitioned" / "model.ckpt-1234")
    assert bundle.names == ["table"]
    assert bundle.shape("table") == (6, 2)
    with pytest.raises(FormatError, match="'table' is stored in slices"):
        bundle.read("table")


def test_an_unknown_name_is_a_clear_error():
    bundle = TensorBundle.open(DATA / "bilm" / "model.ckpt-1234")
    with pytest.raises(FormatError, match=r"no tensor 'lm/missing' among its 51 \('global_step'"):
        bundle.read("lm/missing")


# --- what it rarely writes


@pytest.mark.parametrize(("pack", "kind"), [(bytes, 0), (compress, 1)])
def test_a_table_of_several_blocks_plain_or_compressed(
    tmp_path: Path, pack: Callable[[bytes], bytes], kind: int
):
    entries, data = float_entries(MANY)
    blocks = [block(entries[n : n + 7]) for n in range(0, len(entries), 7)]
    packed = [pack(contents) for contents in blocks]
    assert kind == 0 or sum(map(len, packed)) < sum(map(len, blocks))
    bundle = TensorBundle.open(write(tmp_path, table(packed, kind), data))
    assert bundle.names == sorted(MANY)
    for name, value in MANY.items():
        np.testing.assert_array_equal(bundle.read(name), value)


def test_only_the_asked_tensor_is_read_from_a_large_file(tmp_path: Path):
    value = wave("x", (50,)).astype(np.float32)
    place = {"offset": 1 << 28, "size": value.nbytes}
    one = entry((50,), crc=masked(crc32c(value.tobytes())), **place)
    prefix = write(tmp_path, table([block([HEADER, (b"x", one)])]))
    with Path(f"{prefix}.data-00000-of-00001").open("wb") as file:
        file.seek(1 << 28)  # a hole on disk
        file.write(value.tobytes())
    tracemalloc.start()
    np.testing.assert_array_equal(TensorBundle.open(prefix).read("x"), value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


# --- which checkpoint


@pytest.mark.parametrize(
    "path",
    [
        "model.ckpt-9",
        "/home/somebody/run/model.ckpt-9",
        r"C:\\runs\\model.ckpt-9",
        "../model.ckpt-9",
    ],
)
def test_the_named_checkpoint_is_looked_for_beside_the_file(tmp_path: Path, path: str):
    for step in (9, 10):
        (tmp_path / f"model.ckpt-{step}.index").touch()
    (tmp_path / "checkpoint").write_text(
        f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "model.ckpt-10"\n'
    )
    assert latest_checkpoint(tmp_path) == tmp_path / "model.ckpt-9"


def test_without_that_file_the_highest_number_is_taken(tmp_path: Path):
    for name in ("model.ckpt", "model.ckpt-9", "model.ckpt-10", "a-b"):
        (tmp_path / f"{name}.index").touch()
    assert latest_checkpoint(tmp_path) == tmp_path / "model.ckpt-10"


@pytest.mark.parametrize("text", ['model_checkpoint_path: "gone-1"', "", '"', "\0\xff"])
def test_a_wrong_checkpoint_file_is_a_clear_error(tmp_path: Path, text: str):
    (tmp_path / "model.ckpt-1.index").touch()
    (tmp_path / "checkpoint").write_text(text)
    with pytest.raises(FormatError, match=r"checkpoint: (names 'gone-1'|no line)"):
        latest_checkpoint(tmp_path)


def test_missing_files_are_clear_errors(tmp_path: Path):
    with pytest.raises(FormatError, match=r"no \.index file"):
        latest_checkpoint(tmp_path)
    with pytest.raises(FormatError, match=r"model\.ckpt-7\.index: no such file"):
        TensorBundle.open(tmp_path / "model.ckpt-7")
    shutil.copy(DATA / "bilm" / "model.ckpt-1234.index", tmp_path)
    bundle = TensorBundle.open(tmp_path / "model.ckpt-1234")
    with pytest.raises(FormatError, match=r"data-00001-of-00002: no such file.*lm/softmax/W"):
        bundle.read("lm/softmax/W")
