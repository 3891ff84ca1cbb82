"""Every foreign reader against damaged and hostile files, hundreds each: a model is read or refused
with one line, soon, in bounded memory, and nothing in a file is ever run."""

import json
import os
import pickle
import resource
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from elmore.checkpoint.options import read_options
from elmore.checkpoint.sources import load, save
from elmore.checkpoint.torch_file import read_torch_file
from elmore.errors import ElmoreError, FormatError
from tests.checkpoint.foreign_models import (
    MANYLANGS,
    TRANSFORMER,
    make_bilm_tf,
    make_manylangs,
    make_task,
    make_transformer,
    pack_tar,
    pack_zip,
    save_tensors,
)
from tests.tiny_bert import tiny_bert
from tests.tiny_gpt2 import tiny_gpt2

MAX_SECONDS, MAX_GROWTH = 3, 512 << 20


def refusal(action: Callable[[], object]) -> str | None:
    """What is said when an action refuses, None if it works; anything else it does fails here."""
    start, before = time.process_time(), peak_memory()
    try:
        action()
        message = None
    except ElmoreError as error:
        message = str(error)
        assert "\n" not in message
    assert time.process_time() - start < MAX_SECONDS
    assert peak_memory() - before < MAX_GROWTH
    return message


def peak_memory() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def spoiled(raw: bytes, rng: np.random.Generator, n: int) -> Iterator[bytes]:
    """Bits turned, ends cut off, pieces zeroed, doubled or overwritten with large numbers."""
    for _ in range(n):
        at, kind = int(rng.integers(len(raw))), int(rng.integers(6))
        size = int(rng.integers(1, 64))
        if kind < 2:
            yield raw[:at] + bytes([raw[at] ^ 1 << int(rng.integers(8))]) + raw[at + 1 :]
        elif kind == 2:
            yield raw[:at]
        elif kind == 3:
            yield raw[:at] + bytes(size) + raw[at + size :]
        elif kind == 4:
            yield raw[:at] + raw[at : at + size] * 2 + raw[at + size :]
        else:
            yield raw[:at] + b"\xff" * (size % 9 + 1) + raw[at + size % 9 + 1 :]


def make_bert(folder: Path, old: bool = False) -> None:
    """As a Hugging Face folder; `old` has a file of torch.save and vocab.txt only."""
    save(tiny_bert(heads=True), folder)
    if old:
        weights = load_file(folder / "model.safetensors")
        torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
        (folder / "model.safetensors").unlink()
        (folder / "tokenizer.json").unlink()


def make_transformer_archive(folder: Path) -> Path:
    make_transformer(folder / "unpacked")
    return pack_tar(folder / "unpacked", folder / "model.tar.gz")


def make_manylangs_zip(folder: Path) -> Path:
    make_manylangs(folder / "unpacked")
    return pack_zip(folder / "unpacked", folder / "144.zip")


ARCHIVES = {"tar.gz": make_transformer_archive, "zip": make_manylangs_zip}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_spoiled_archives(tmp_path: Path, kind: str):
    path = ARCHIVES[kind](tmp_path)
    raw, refused = path.read_bytes(), 0
    for spoilt in spoiled(raw, np.random.default_rng(5), 200):
        path.write_bytes(spoilt)
        refused += refusal(lambda: load(path)) is not None
    assert refused > 150  # the rest hit what no reader looks at


MODELS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "Transformer, old torch file": (make_transformer, ["weights.th", "config.json"]),
    "Transformer, new torch file": (
        lambda folder: make_transformer(folder, old=False),
        ["weights.th", "vocabulary/tokens.txt"],
    ),
    "task": (make_task, ["weights.th", "fta/model.text_field_embedder.elmo.options_file"]),
    "ELMoForManyLangs": (
        make_manylangs,
        ["encoder.pkl", "token_embedder.pkl", "char.dic", "word.dic", "cnn_tiny.json"],
    ),
    "ELMoForManyLangs, old torch file": (
        lambda folder: make_manylangs(folder, old=True),
        ["encoder.pkl", "token_embedder.pkl", "config.json"],
    ),
    "BERT": (make_bert, ["model.safetensors", "config.json", "tokenizer.json"]),
    "BERT, old torch file, vocab.txt": (
        lambda folder: make_bert(folder, old=True),
        ["pytorch_model.bin", "vocab.txt", "tokenizer_config.json"],
    ),
    "GPT-2": (
        lambda folder: save(tiny_gpt2(), folder),
        ["model.safetensors", "config.json", "vocab.json", "merges.txt"],
    ),
    "bilm-tf": (make_bilm_tf, ["model.ckpt-7.index", "options.json", "checkpoint"]),
}


@pytest.mark.parametrize("model", MODELS)
def test_spoiled_files(tmp_path: Path, model: str):
    make, files = MODELS[model]
    make(tmp_path / "model")
    rng = np.random.default_rng(6)
    for name in files:
        path = tmp_path / "model" / name
        raw, refused = path.read_bytes(), 0
        for spoilt in spoiled(raw, rng, 240 // len(files)):
            path.write_bytes(spoilt)
            refused += refusal(lambda: load(tmp_path / "model", heads=True)) is not None
        path.write_bytes(raw)
        assert refused, name
    assert refusal(lambda: load(tmp_path / "model")) is None


@pytest.mark.parametrize(
    "wrong", [b"", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"\x80\x02.", b"GIF89a"]
)
@pytest.mark.parametrize("model", MODELS)
def test_files_of_another_kind(tmp_path: Path, model: str, wrong: bytes):
    make, (name, *_) = MODELS[model]
    make(tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(wrong + bytes(100) * bool(wrong))
    assert refusal(lambda: load(tmp_path / "model")) is not None


# --- pickles that would do something


class Touch:
    """Unpickled by an unwary program, it makes a file."""

    def __init__(self, path: Path, how: str):
        self.path, self.how = str(path), how

    def __reduce__(self) -> tuple[Any, ...]:
        made = f"open({self.path!r}, 'w').close()"
        ways: dict[str, tuple[Any, ...]] = {
            "system": (os.system, (f"touch {self.path}",)),
            "exec": (exec, (made,)),
            "eval": (eval, (made,)),
            "open": (open, (self.path, "w")),
            "mkdir": (os.mkdir, (self.path,)),
        }
        return ways[self.how]


def plain_pickle(value: object, path: Path) -> None:
    path.write_bytes(pickle.dumps(value))


def old_torch_file(value: object, path: Path) -> None:
    torch.save(value, path, _use_new_zipfile_serialization=False)


def new_torch_file(value: object, path: Path) -> None:
    torch.save(value, path)


@pytest.mark.parametrize("how", ["system", "exec", "eval", "open", "mkdir"])
@pytest.mark.parametrize("write", [plain_pickle, old_torch_file, new_torch_file])
@pytest.mark.parametrize("inside", ["alone", "as a value", "as a name", "beside tensors"])
def test_a_pickle_that_would_run_something_is_refused_unrun(
    tmp_path: Path, how: str, write: Callable[[object, Path], None], inside: str
):
    harm = Touch(tmp_path / "harm", how)
    values: dict[str, Any] = {
        "alone": harm,
        "as a value": {"weight": harm},
        "as a name": [("weight", torch.ones(2)), (harm, 1)],
        "beside tensors": {"weight": torch.ones(2), "harm": [harm]},
    }
    write(values[inside], tmp_path / "weights.th")
    message = refusal(lambda: read_torch_file(tmp_path / "weights.th"))
    assert message is not None
    assert "Nothing in it was run" in message
    assert not (tmp_path / "harm").exists()


def test_a_harmful_pickle_in_every_place_of_every_model(tmp_path: Path):
    harm = Touch(tmp_path / "harm", "open")
    make_transformer(tmp_path / "a")
    make_task(tmp_path / "b")
    make_manylangs(tmp_path / "c")
    make_bert(tmp_path / "d", old=True)
    torch_files = ("a/weights.th", "b/weights.th", "c/encoder.pkl", "c/token_embedder.pkl")
    for name in (*torch_files, "d/pytorch_model.bin"):
        path = tmp_path / name
        shutil.copy(path, tmp_path / "kept")
        for write in (plain_pickle, old_torch_file, new_torch_file):
            write({"weight": harm}, path)
            assert refusal(partial(load, path.parent)) is not None
            packed = pack_zip(path.parent, tmp_path / "packed.zip")
            assert refusal(partial(load, packed)) is not None
        shutil.copy(tmp_path / "kept", path)
    assert not (tmp_path / "harm").exists()


# --- well-formed up to the one lie they tell


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(3),
        ["no", "names"],
        {"a": "text"},
        {1: torch.ones(2)},
        {"a": {"b": torch.ones(2)}},
        {"a": torch.ones(1).expand(1 << 40)},
        {"a": torch.ones(1, 1).expand(1 << 30, 1 << 30)},
        {f"a{i}": torch.ones(1).expand(2000) for i in range(300)},
        {"a": torch.ones(2, 2).to_sparse()},
        {"a": torch.ones(2, device="meta")},
    ],
    ids=str,
)
def test_what_is_not_plain_tensors_by_name_is_refused(tmp_path: Path, value: object):
    for write in (old_torch_file, new_torch_file):
        write(value, tmp_path / "weights.th")
        assert refusal(lambda: read_torch_file(tmp_path / "weights.th")) is not None


@pytest.mark.parametrize("n", [1000, 1 << 31, 1 << 40, (1 << 63) - 1])
def test_a_table_larger_than_its_bytes_is_refused(tmp_path: Path, n: int):
    """The pickle says how many numbers a tensor has; the file holds four."""
    path = tmp_path / "weights.th"
    torch.save({"a": torch.ones(4)}, path)
    long = b"\x8a\x08" + n.to_bytes(8, "little")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in parts if name.endswith("data.pkl"))
    parts[name] = parts[name].replace(b"K\x04", long)
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    assert refusal(lambda: read_torch_file(path)) is not None


def test_a_number_that_changed_is_seen(tmp_path: Path):
    path = tmp_path / "weights.th"
    torch.save({"a": torch.full((64,), 0.5)}, path)
    raw = path.read_bytes()
    at = raw.index(torch.full((64,), 0.5).numpy().tobytes())
    path.write_bytes(raw[: at + 2] + b"\x01" + raw[at + 3 :])
    assert "checksum" in (refusal(lambda: read_torch_file(path)) or "")


def test_compressed_tensors_are_refused(tmp_path: Path):
    path = tmp_path / "weights.th"
    torch.save({"a": torch.zeros(1 << 22)}, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    assert path.stat().st_size < 1 << 16
    assert "compressed" in (refusal(lambda: read_torch_file(path)) or "")


HUGE = [0, -1, 1 << 20, 1 << 31, 1 << 62, 1 << 70, 1.5, None, "many", [], {}, True]


def replaced(config: Any, value: object) -> Iterator[Any]:
    """The config with one thing in it replaced, every thing in turn."""
    yield value
    if isinstance(config, dict | list):
        for key, part in config.items() if isinstance(config, dict) else enumerate(config):
            for other in replaced(part, value):
                changed = config.copy()
                changed[key] = other
                yield changed


@pytest.mark.parametrize("value", HUGE, ids=str)
def test_configs_with_one_thing_replaced(tmp_path: Path, value: object):
    """Hundreds of lies: each is refused, or changes nothing a model's shape depends on."""
    make_transformer(tmp_path / "a")
    make_manylangs(tmp_path / "b")
    make_bert(tmp_path / "c")
    bert = tmp_path / "c" / "config.json"
    for path, config in (
        (tmp_path / "a" / "config.json", TRANSFORMER),
        (tmp_path / "b" / "cnn_tiny.json", MANYLANGS),
        (bert, json.loads(bert.read_text())),
    ):
        refused = 0
        for changed in replaced(config, value):
            path.write_text(json.dumps(changed))
            refused += refusal(partial(load, path.parent)) is not None
        assert refused > 10


def test_tensors_of_whole_numbers_are_refused(tmp_path: Path):
    W = make_manylangs(tmp_path / "model")
    names = [name for name in W if "layer_0" in name or "layer_1" in name]
    rounded = {name: W[name].astype(np.int32) for name in names}
    save_tensors(rounded, tmp_path / "model" / "encoder.pkl")  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="is int32 of shape"):
        load(tmp_path / "model")


def test_room_that_a_pickle_asks_for_is_not_made(tmp_path: Path):
    path = tmp_path / "encoder.pkl"
    path.write_bytes(pickle.dumps({"w": bytearray(8)}, protocol=2))
    with pytest.raises(FormatError, match="names bytearray"):
        read_torch_file(path)


def test_options_without_end_are_not_read(tmp_path: Path):
    path = tmp_path / "options.json"
    with path.open("wb") as file:
        file.truncate((1 << 24) + 1)
    with pytest.raises(FormatError, match="over 16 MiB"):
        read_options(path)
