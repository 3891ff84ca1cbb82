"""A softmax as int8 rows: as near as half a step, used like any other, and damage noticed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from elmore.checkpoint.bilm import SOFTMAX, bilm_checkpoint, language_model
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.int8_rows import read_int8_rows, to_int8_rows
from elmore.checkpoint.native import HEADS, read_native, write_native_files
from elmore.checkpoint.sources import load, save
from elmore.cli.main import main
from elmore.errors import FormatError
from elmore.text.vocabulary import Vocabulary
from tests.tiny_models import WORDS, make

DIM = 8


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    tiny = make(tmp_path / "source")
    torch.manual_seed(0)
    head = nn.Linear(DIM, len(WORDS)).requires_grad_(False)
    head.weight[2] = 0.0  # a row without a scale
    head.weight[3] *= 1e-6
    model = read_hdf5(tiny.weights, tiny.options_path).model
    return bilm_checkpoint(model, vocabulary=Vocabulary(WORDS), softmax=head)


@pytest.fixture
def folder(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    target = tmp_path / "int8"
    target.mkdir()
    write_native_files(checkpoint, target, int8_heads=True)
    return target


def test_every_number_is_off_by_half_a_step_at_most(checkpoint: Checkpoint, folder: Path):
    head, found = checkpoint.heads[SOFTMAX], read_native(folder, heads=True).heads[SOFTMAX]
    assert isinstance(head, nn.Linear)
    assert isinstance(found, nn.Linear)
    half = head.weight.abs().amax(dim=1, keepdim=True) / 254
    assert ((found.weight - head.weight).abs() <= half * (1 + 1e-5)).all()
    assert not torch.equal(found.weight, head.weight)
    assert torch.equal(found.bias, head.bias)
    assert torch.equal(found.weight[2], torch.zeros(DIM))
    stored = load_file(folder / HEADS / "softmax.safetensors")
    assert stored["rows"].dtype == torch.int8


def test_only_such_folders_are_of_version_3(checkpoint: Checkpoint, folder: Path, tmp_path: Path):
    save(checkpoint, tmp_path / "plain")
    for place, version in ((folder, 3), (tmp_path / "plain", 2)):
        assert json.loads((place / "config.json").read_text())["version"] == version
    save(load(folder, heads=True), tmp_path / "copy")  # widened
    assert json.loads((tmp_path / "copy" / "config.json").read_text())["version"] == 2


def test_it_predicts_as_the_whole_one_does(checkpoint: Checkpoint, folder: Path):
    rounded = load(folder, heads=True)
    whole, less = (language_model(c, "x").softmax for c in (checkpoint, rounded))
    inputs = torch.sin(torch.arange(5 * DIM) * 0.7).view(5, DIM) * 2
    a, b = (
        torch.log_softmax(nn.functional.linear(inputs, s.weight, s.bias.flatten()), dim=-1)
        for s in (whole, less)
    )
    torch.testing.assert_close(a, b, atol=0.02, rtol=0)


def test_evaluate_and_substitutes_take_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[4:9]) + "\n", encoding="utf-8")
    assert main(["evaluate", str(folder), str(text), "--as-is"]) == 0
    asked = ["substitutes", str(folder), "The river bank .", "--word", "bank", "--top", "2"]
    assert main(asked) == 0
    assert capsys.readouterr().out


def test_pretraining_starts_from_it(folder: Path, tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(WORDS[3:]) for _ in range(30)) + "\n", encoding="utf-8")
    run = ["pretrain", text, "--output", tmp_path / "run", "--from", folder, "--steps", 2]
    small = ["--set", "batches.words=64", "--set", "softmax.n_samples=2", "--as-is", "--quiet"]
    assert main([*map(str, run), *small]) == 0
    assert SOFTMAX in load(tmp_path / "run", heads=True).heads


@pytest.mark.parametrize("damage", ["rows", "scales", "bias", "missing", "kind", "nan"])
def test_damage_is_one_line(checkpoint: Checkpoint, tmp_path: Path, damage: str):
    head = checkpoint.heads[SOFTMAX]
    assert isinstance(head, nn.Linear)
    tensors = to_int8_rows(head)
    match damage:
        case "missing":
            del tensors["scales"]
        case "kind":
            tensors["rows"] = tensors["rows"].float()
        case "nan":
            tensors["scales"][1] = torch.nan
        case name:
            tensors[name] = tensors[name][..., :-1].contiguous()
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(FormatError, match=r"x\.safetensors"):
        read_int8_rows(tmp_path / "x.safetensors", DIM)


def test_the_vectors_are_not_touched(checkpoint: Checkpoint, folder: Path):
    assert load(folder).fingerprint() == replace(checkpoint, heads={}).fingerprint()
