"""elmore's own folder: the same bits back, written whole or not at all, and damage noticed."""

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from elmore.checkpoint import native
from elmore.checkpoint.bilm import bilm_checkpoint, softmax_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.native import read_native, write_native
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_file, atomic_folder
from elmore.text.vocabulary import Vocabulary
from tests.tiny_models import WORDS, make


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    tiny = make(tmp_path / "source")
    model = read_hdf5(tiny.weights, tiny.options_path)
    return bilm_checkpoint(
        model.model,
        vocabulary=Vocabulary(WORDS),
        softmax=nn.Linear(8, len(WORDS)),
        options=model.options,
    )


@pytest.fixture
def folder(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    write_native(checkpoint, tmp_path / "native")
    return tmp_path / "native"


def complaint(folder: Path, *, heads: bool = False) -> str:
    with pytest.raises(FormatError) as caught:
        read_native(folder, heads=heads)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_everything_comes_back(checkpoint: Checkpoint, folder: Path):
    again = read_native(folder, heads=True)
    assert again.model.config == checkpoint.model.config
    assert again.options == checkpoint.options
    assert again.vocabulary is not None
    assert again.vocabulary.words == WORDS
    before, after = checkpoint.model.state_dict(), again.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert softmax_of(checkpoint) is not None
    assert softmax_of(again) is not None
    assert torch.equal(softmax_of(checkpoint).weight, softmax_of(again).weight)
    assert not any(p.requires_grad for p in again.model.parameters())
    assert not again.model.training


def test_the_softmax_is_read_only_when_asked_for(folder: Path):
    assert softmax_of(read_native(folder)) is None


def test_half_precision_weights_are_read_as_single(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    save_file({k: v.half() for k, v in tensors.items()}, folder / "model.safetensors")
    state = read_native(folder).model.state_dict()
    assert all(torch.equal(state[k], v.half().float()) for k, v in tensors.items())


# Whole or not at all ------------------------------------------------------------------------------


def test_a_failure_half_way_leaves_nothing(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full_disk(tensors: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(native, "save_file", full_disk)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"native: cannot be written \(No space left on device\)"):
        write_native(checkpoint, tmp_path / "native")
    assert sorted(tmp_path.iterdir()) == before


def test_an_interruption_leaves_nothing(tmp_path: Path):
    def interrupted() -> None:
        with atomic_folder(tmp_path / "new") as beside:
            (beside / "part").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_file_leaves_the_old_one(tmp_path: Path):
    target = tmp_path / "file"
    target.write_text("old")

    def interrupted() -> None:
        with atomic_file(target) as beside:
            beside.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    with atomic_file(target) as beside:
        beside.write_text("new")
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_folder_is_never_written_over(checkpoint: Checkpoint, folder: Path):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    with pytest.raises(InputError, match="exists already"):
        write_native(checkpoint, folder)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_a_folder_in_a_folder_that_is_not_there(checkpoint: Checkpoint, tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        write_native(checkpoint, tmp_path / "no" / "native")


# Config -------------------------------------------------------------------------------------------


def change_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c.update(surprise=1), "surprise: Extra inputs are not permitted (found 1)"),
        (lambda c: c["model"]["words"].update(kernel=3), "model.words.characters.kernel: Extra"),
        (lambda c: c["model"]["context"].update(dim=-8), "context.lstm.dim: Input should be great"),
        (lambda c: c["model"]["context"].update(dim=9), "words.dim=8 but context.dim=9"),
        (lambda c: c["model"]["context"].update(kind="gru"), "kind"),
        (lambda c: c["model"]["context"].update(n_layers=10**9), "less than or equal to 1000"),
        (lambda c: c.pop("model"), "model: Field required"),
        (lambda c: c.update(version=4), "format 'elmore' version 4; this elmore reads"),
        (lambda c: c.update(format="else"), "format 'else' version 2"),
        (lambda c: c.update(options=3), "options: Input should be an object (found 3)"),
    ],
)
def test_a_config_that_is_wrong(
    folder: Path, change: Callable[[dict[str, Any]], object], expected: str
):
    change_config(folder, change)
    message = complaint(folder)
    assert message.startswith(f"{folder / 'config.json'}: ")
    assert expected in message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_config_that_is_not_json(folder: Path, content: bytes):
    (folder / "config.json").write_bytes(content)
    assert str(folder / "config.json") in complaint(folder)


@pytest.mark.parametrize("dim", [10**15, 2**62, 10**30])
def test_a_config_of_impossible_size_is_refused(folder: Path, dim: int):
    change_config(folder, lambda c: c["model"]["context"].update(cell_dim=dim))
    assert "config" in complaint(folder)


# Weights ------------------------------------------------------------------------------------------


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.pop("words.embed.weight"), "'words.embed.weight' (262, 4) is missing"),
        (lambda t: t.update(extra=torch.zeros(1)), "'extra' is not part of the model"),
        (
            lambda t: t.update({"context.layers.1.bias": torch.zeros(2, 40)}),
            "'context.layers.1.bias' has shape (2, 40), but its config calls for (2, 48)",
        ),
    ],
)
def test_tensors_that_do_not_fit(
    folder: Path, change: Callable[[dict[str, Tensor]], object], expected: str
):
    change_tensors(folder, change)
    message = complaint(folder)
    assert str(folder / "model.safetensors") in message
    assert expected in message


def header_length(path: Path) -> int:
    return 8 + int(struct.unpack("<Q", path.read_bytes()[:8])[0])


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1, -1000, -10_000])
def test_truncated_weights(folder: Path, kept: int):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert str(path) in complaint(folder)


def test_a_flipped_bit_in_the_header_is_noticed_or_harmless(folder: Path):
    path, rng, messages = folder / "model.safetensors", random.Random(5), []
    whole, before = path.read_bytes(), read_native(folder).model.state_dict()
    before = {name: tensor.clone() for name, tensor in before.items()}
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.randrange(header_length(path))] ^= 1 << rng.randrange(8)
        path.unlink()  # a new file: the old one is still mapped into memory
        path.write_bytes(damaged)
        try:
            after = read_native(folder).model.state_dict()
        except FormatError as error:
            messages.append(str(error))
        else:
            assert all(torch.equal(before[name], after[name]) for name in before)
        path.write_bytes(whole)
    assert len(messages) > 40
    assert all(str(path) in m and "\n" not in m for m in messages)


def test_a_pickle_is_not_opened(folder: Path):
    torch.save({"weight": torch.zeros(3)}, folder / "model.safetensors")
    assert "not a readable safetensors file" in complaint(folder)


def test_a_softmax_that_does_not_fit(folder: Path):
    path = folder / "heads" / "softmax.safetensors"
    save_file({"weight": torch.zeros(9, 7), "bias": torch.zeros(9)}, path)
    assert "'weight' has shape (9, 7), but its config calls for (9, 8)" in complaint(
        folder, heads=True
    )
    save_file({"weight": torch.zeros(9, 8)}, path)
    assert "has ['weight']; expected 'bias' and 'weight'" in complaint(folder, heads=True)
    save_file({"weight": torch.zeros(4, 8), "bias": torch.zeros(4)}, path)
    assert "9 words, but the model's softmax has 4 rows" in complaint(folder, heads=True)


@pytest.mark.parametrize(("bad", "said"), [(float("nan"), "NaN or infinite"), (None, "I64")])
def test_weights_that_are_no_numbers_are_refused(
    tiny_model: Path, tmp_path: Path, bad: Any, said: str
):
    shutil.copytree(tiny_model, tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    name = next(iter(tensors))
    tensors[name] = tensors[name].long() if bad is None else tensors[name].fill_(bad)
    save_file(tensors, path)
    with pytest.raises(FormatError, match=said):
        read_native(tmp_path / "m")
