"""A BERT folder through every verb, as an ELMo would go."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from elmore import Elmo, Embedder, Index, Store
from elmore.checkpoint.sources import load, save
from elmore.cli.main import main
from elmore.serve.app import create_app
from tests.shared import SHARED, needs
from tests.tasks.tiny_data import write_columns
from tests.tiny_bert import tiny_bert

CORPUS = [
    *(f"we sat on the grassy bank of the {x} .".split() for x in ("river", "lake", "sea")),
    *(f"the bank lent the {x} at one .".split() for x in ("money", "loan", "sum")),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tiny_bert(heads=True, max_positions=40), tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(words) for words in CORPUS), encoding="utf-8")
    return path


@pytest.mark.parametrize("pieces", ["first", "mean"])
def test_embed(folder: Path, text: Path, tmp_path: Path, pieces: str):
    target = tmp_path / "vectors.npz"
    given = ["--model", str(folder), "--pieces", pieces, "--quiet"]
    assert main(["embed", str(text), str(target), *given]) == 0
    with np.load(target) as archive:
        for i, found in enumerate(Embedder.load(folder, pieces=pieces).embed(CORPUS)):
            np.testing.assert_allclose(archive[str(i)], found.layers, rtol=0, atol=1e-6)


def test_store(folder: Path, text: Path, tmp_path: Path):
    store = str(tmp_path / "store")
    fill = ["store", "fill", str(text), store, "--model", str(folder), "--quiet"]
    assert main([*fill, "--pieces", "mean"]) == 0
    opened = Store.open(Path(store))
    assert not opened.context_free
    (found,) = Embedder.load(folder, pieces="mean").embed([CORPUS[0]])
    np.testing.assert_allclose(opened[CORPUS[0]].layers, found.layers, rtol=0, atol=1e-6)
    assert main([*fill, "--pieces", "first"]) == 2  # vectors of another fingerprint


def test_index_neighbors_and_senses(
    folder: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    index = str(tmp_path / "index")
    build = ["index", str(text), "--output", index, "--model", str(folder), "--pieces", "mean"]
    assert main([*build, "--quiet"]) == 0
    assert main(["neighbors", index, " ".join(CORPUS[0]), "--word", "bank"]) == 0
    assert main(["senses", index, "bank"]) == 0
    said = capsys.readouterr().out
    assert "without context" in said
    opened = Index.open(Path(index))
    static = Embedder.load(folder).static([[word] for word in opened.words])
    (segment,) = opened._snapshot.segments
    for word, vector in zip(opened.words, static, strict=True):
        np.testing.assert_array_equal(segment.static_vector(word), vector.astype(np.float16))


def test_demo(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--model", str(folder), "--word", "bank", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["demos"]
    assert len(found["total"]["layers"]) == 3


def test_the_table_of_the_demo_has_every_word_and_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "80")
    for n_layers in (6, 12):
        save(tiny_bert(n_layers=n_layers), tmp_path / "deep")
        assert main(["demo", "--model", str(tmp_path / "deep"), "--word", "bank"]) == 0
        said = capsys.readouterr().out
        numbers = " ".join(map(str, range(n_layers + 1)))
        assert f" word static sentence {numbers} average " in re.sub(" +", " ", said)
        figures = re.search(r"^ bank ([ \d]+)$", said, re.MULTILINE)
        assert figures is not None
        assert len(figures[1].split()) == n_layers + 4
        assert "…" not in said
        shutil.rmtree(tmp_path / "deep")


def test_doctor(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", str(folder), "--pieces", "mean"]) == 0
    said = dict(re.findall(r"^(\w+) +(.*)$", capsys.readouterr().out, re.MULTILINE))
    assert said["format"] == "bert"
    assert said["input"] == "word pieces, lowercased; a word is the mean of its pieces"
    assert said["context"] == "BERT, 2 layers, 3 heads, feed-forward 20 (gelu), 40 positions"
    assert said["layers"] == "3, the embeddings first"
    assert said["heads"] == "mlm, nsp"


def test_convert(folder: Path, tmp_path: Path):
    target = tmp_path / "again"
    assert main(["convert", str(folder), str(target), "--pieces", "mean"]) == 0
    expected = Embedder.load(folder, pieces="mean")
    assert Embedder.load(target).fingerprint == expected.fingerprint
    assert {*load(target, heads=True).heads} == {"mlm", "nsp"}
    assert main(["convert", str(folder), str(tmp_path / "weights.hdf5")]) == 2


@needs("fixtures", "bert-tf")
def test_convert_a_tensorflow_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = str(SHARED / "fixtures" / "bert-tf")
    assert main(["convert", source, str(tmp_path / "a")]) == 2
    assert "--lowercase" in capsys.readouterr().err
    assert main(["convert", source, str(tmp_path / "b"), "--lowercase"]) == 0
    assert main(["doctor", str(tmp_path / "b")]) == 0  # the folder says it from now on


def test_serve(folder: Path, tmp_path: Path):
    embedder = Embedder.load(folder)
    index = Index.build(CORPUS, embedder, tmp_path / "index", keep="all")
    with TestClient(create_app(embedder, index=index)) as client:
        answer = client.post("/embed", json={"sentences": [CORPUS[0]]}).json()
        layers = answer["sentences"][0]["layers"]
        np.testing.assert_allclose(layers, embedder.embed([CORPUS[0]])[0].layers, atol=1e-6)
        near = client.post("/neighbors", json={"sentence": CORPUS[0], "position": 5, "k": 2})
        assert len(near.json()["neighbors"]) == 2


@pytest.mark.parametrize("tuned", [[], ["--fine-tune"]], ids=["frozen", "fine-tuned"])
def test_a_task(folder: Path, tmp_path: Path, tuned: list[str]):
    write_columns(tmp_path)
    train, dev = str(tmp_path / "train.txt"), str(tmp_path / "dev.txt")
    given = ["--train", train, "--dev", dev, "--output", str(tmp_path / "ner"), "--quiet"]
    small = ["--epochs", "2", "--set", "task.hidden=4", "--set", "encoder.own.word_dim=4"]
    assert main(["task", "train", "ner", *given, "--encoder", str(folder), *small, *tuned]) == 0


def test_inside_another_model(folder: Path):
    elmo = Elmo.load(folder, pieces="mean", fine_tune=True, dropout=0.0)
    mixed = elmo(CORPUS)
    assert mixed.vectors[0].shape == (6, 10, 12)
    assert elmo.model.config.pieces == "mean"  # type: ignore[attr-defined]


def test_options_of_pieces_are_for_models_that_have_pieces(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
):
    given = ["--model", "small-en", "--pieces", "mean", "--quiet"]
    assert main(["embed", str(text), str(tmp_path / "x.npz"), *given]) == 2
    assert "this one reads whole words" in capsys.readouterr().err
