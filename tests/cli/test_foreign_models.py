"""`elmore doctor` and `elmore convert` on every published format."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.embedder import Embedder
from tests.checkpoint.foreign_models import (
    make_bilm_tf,
    make_manylangs,
    make_task,
    make_transformer,
    pack_tar,
    pack_zip,
)


def transformer(folder: Path) -> Path:
    make_transformer(folder / "model")
    return pack_tar(folder / "model", folder / "model.tar.gz")


def task(folder: Path) -> Path:
    make_task(folder / "model")
    next((folder / "model" / "fta").iterdir()).unlink()
    return pack_tar(folder / "model", folder / "model.tar.gz")


def bilm_tf(folder: Path) -> Path:
    make_bilm_tf(folder / "model")
    return folder / "model" / "model.ckpt-7"


def manylangs(folder: Path) -> Path:
    make_manylangs(folder / "model")
    return pack_zip(folder / "model", folder / "144.zip")


Maker = Callable[[Path], Path]
SAID: dict[Maker, list[str]] = {
    transformer: [
        "allennlp in an archive",
        "Transformer, 2 layers",
        "8 words",
        "softmax there",
    ],
    task: ["allennlp in an archive", "learned mix weights 0.", "note The archive lacks"],
    bilm_tf: ["bilm-tf", "model.ckpt-7.data-00000-of-00001", "vocabulary missing", "there"],
    manylangs: ["manylangs in an archive", "words, a table of 7, and characters", "missing"],
}


@pytest.mark.parametrize("make", SAID, ids=lambda make: make.__name__)
def test_the_doctor_describes_it(tmp_path: Path, make: Maker, capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", str(make(tmp_path))]) in (0, None)
    said = " ".join(capsys.readouterr().out.split())
    for part in SAID[make]:
        assert part in said


@pytest.mark.parametrize("make", SAID, ids=lambda make: make.__name__)
def test_it_becomes_elmores_own_folder(tmp_path: Path, make: Maker):
    source = make(tmp_path)
    assert main(["convert", str(source), str(tmp_path / "native")]) in (0, None)
    again = Embedder.load(tmp_path / "native")
    assert again.fingerprint == Embedder.load(source).fingerprint


@pytest.mark.parametrize("make", [task, bilm_tf])
def test_it_becomes_hdf5_where_hdf5_can_hold_it(tmp_path: Path, make: Maker):
    assert main(["convert", str(make(tmp_path)), str(tmp_path / "out.hdf5")]) in (0, None)
    assert json.loads((tmp_path / "options.json").read_text())["lstm"]["projection_dim"] == 8


@pytest.mark.parametrize("make", [transformer, manylangs])
def test_it_is_refused_where_hdf5_cannot(
    tmp_path: Path, make: Maker, capsys: pytest.CaptureFixture[str]
):
    assert main(["convert", str(make(tmp_path)), str(tmp_path / "out.hdf5")]) == 2
    said = capsys.readouterr().err
    assert "HDF5 holds LSTM ELMos" in said
    assert "name a folder" in said
    assert not (tmp_path / "out.hdf5").exists()
