"""`elmore lens`, and `meaning` as a choice of every verb that chooses layers."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.checkpoint.lens import FILE
from elmore.cli.main import main
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.search.index import Index
from elmore.store.store import Store
from tests.lens.lensed import with_lens
from tests.lens.texts import write_corpus
from tests.search.corpora import corpus

CORPUS = corpus(60)
SENTENCE = "We walked along the bank of the river ."
_FAST = ["--words", "1000", "--set", "batch_words=256", "--set", "min_count=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lens")


@pytest.fixture(scope="module")
def model(folder: Path, tiny_model: Path) -> Path:
    return with_lens(tiny_model, folder / "model")


@pytest.fixture(scope="module")
def text(folder: Path) -> Path:
    path = folder / "text.txt"
    path.write_text("\n".join(" ".join(words) for words in CORPUS) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def index(folder: Path, model: Path, text: Path) -> Path:
    pytest.importorskip("faiss", reason="the extra `search` is not installed")
    target = folder / "index"
    build = ["index", str(text), "--model", str(model), "--output", str(target), "--quiet"]
    assert main([*build, "--words", "0", "--keep", "all"]) == 0
    return target


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    return err


def test_lens_learns_one_and_says_so(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    corpus = write_corpus(tmp_path / "corpus.txt")
    own = Path(shutil.copytree(tiny_model, tmp_path / "own"))
    assert main(["lens", str(own), str(corpus), *_FAST]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{own / FILE}: a linear map of layer 2, learned from 1,0")
    new = tmp_path / "new"
    assert (
        main(["lens", str(tiny_model), str(corpus), "--output", str(new), *_FAST, "--quiet"]) == 0
    )
    assert capsys.readouterr() == ("", "")
    assert (new / FILE).read_bytes() == (own / FILE).read_bytes()
    told = refused(capsys, "lens", own, corpus)
    assert "exists already; remove it to learn another lens." in told


def test_embed(model: Path, tiny_model: Path, text: Path, tmp_path: Path):
    target = tmp_path / "out.hdf5"
    assert (
        main(["embed", str(text), str(target), "--model", str(model), "--layers", "meaning"]) == 0
    )
    (expected,) = Embedder.load(model).embed([CORPUS[0]])
    with h5py.File(target) as file:
        np.testing.assert_allclose(file["0"][...], expected.meaning, rtol=1e-5, atol=1e-6)


def test_a_stopped_dump_is_not_continued_with_another_lens(
    model: Path, tiny_model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other, target = with_lens(tiny_model, tmp_path / "other", speed=0.9), tmp_path / "out.hdf5"
    embed = ["embed", text, target, "--layers", "meaning", "--resume", "--model"]
    assert main([*map(str, embed), str(model)]) == 0
    assert "the model has changed" in refused(capsys, *embed, other)


def test_store(
    model: Path, tiny_model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    fill = ["store", "fill", text, tmp_path / "s", "--keep", "meaning", "--quiet", "--model"]
    assert main([*map(str, fill), str(model)]) == 0
    store, embedder = Store.open(tmp_path / "s"), Embedder.load(model)
    found, (expected,) = store[CORPUS[3]], embedder.embed([CORPUS[3]])
    np.testing.assert_allclose(found.layers[0], expected.meaning, rtol=1e-5, atol=1e-6)
    assert not store.context_free
    assert main(["store", "info", str(tmp_path / "s")]) == 0
    assert "the lens for meaning" in capsys.readouterr().out
    assert main([*map(str, fill), str(model)]) == 0
    other = with_lens(tiny_model, tmp_path / "other", speed=0.9)
    assert "These are vectors of the lens" in refused(capsys, *fill, other)
    assert "the model has no lens for meaning" in refused(capsys, *fill, tiny_model)


def test_an_index_has_it_by_default(model: Path, text: Path, tmp_path: Path):
    pytest.importorskip("faiss", reason="the extra `search` is not installed")
    target = tmp_path / "index"
    build = ["index", str(text), "--model", str(model), "--output", str(target), "--quiet"]
    assert main([*build, "--words", "0"]) == 0
    found = Index.open(target)
    assert found.searchable == ("meaning",)
    assert found.default_layer == "meaning"
    assert found.layers == ()
    embedder = Embedder.load(model, device="cpu")
    layers = embedder.embed([CORPUS[3]])[0].layers[:, 0]
    with pytest.raises(ConfigError, match="opened without its model"):
        found.neighbors_of(layers)
    assert Index.open(target, embedder).neighbors_of(layers, k=1)


def test_an_index_of_everything_has_the_layers_and_the_lens(
    index: Path, model: Path, capsys: pytest.CaptureFixture[str]
):
    embedder = Embedder.load(model)
    found = Index.open(index, embedder)
    assert found.searchable == (0, 1, 2, "mix", "meaning")
    words = SENTENCE.split()
    by_default = found.neighbors(words, 4)
    assert by_default == found.neighbors(words, 4, layer="meaning")
    top = found.neighbors(words, 4, layer=2)
    assert [near.score for near in by_default] != [near.score for near in top]
    # the vectors are those of the lens, less their mean: compared in double precision
    (query,), uses = embedder.embed([words]), found.uses("bank")
    center = found._snapshot.space.center[-1].astype(np.float64)
    mine = query.meaning[4] - center
    best = max(
        float(mine @ theirs / np.linalg.norm(mine) / np.linalg.norm(theirs))
        for use in uses
        for theirs in [embedder.embed([use.words])[0].meaning[use.position] - center]
    )
    assert by_default[0].score == pytest.approx(best, abs=0.01)  # kept in int8


@pytest.mark.parametrize("layer", ["meaning", "2", "mix", "0.2,0.5,0.3"])
def test_neighbors_and_senses(index: Path, layer: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sklearn", reason="the extra `search` is not installed")
    near = ["neighbors", str(index), SENTENCE, "--word", "bank", "-k", "3"]
    assert main([*near, "--layer", layer]) == 0
    said = capsys.readouterr().out
    assert main(["senses", str(index), "bank", "--layer", layer]) == 0
    assert "bank 1" in capsys.readouterr().out
    assert main(near) == 0
    assert (capsys.readouterr().out == said) == (layer == "meaning")


def test_demo_shows_it(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "play.html"
    assert main(["demo", "--model", str(model), "--plot", str(page)]) == 0
    said = capsys.readouterr().out
    assert "Nearest uses by the lens for meaning:" in said
    assert "meaning: the model's lens" in said
    assert "lens for meaning of model" in page.read_text(encoding="utf-8")
    assert main(["demo", "--model", str(model), "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["demos"][0]["total"]
    assert 0 < total["meaning"] < 1


def test_doctor_names_it(model: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", str(model)]) == 0
    assert "a linear map of layer 2, waves" in capsys.readouterr().out
    assert main(["doctor", str(tiny_model)]) == 0
    assert "lens" in capsys.readouterr().out


def test_a_model_without_one_says_so_in_one_line(
    tiny_model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    told = "the model has no lens for meaning; `elmore lens MODEL CORPUS` learns one in minutes."
    out, given = tmp_path / "out.hdf5", ["--model", tiny_model]
    assert told in refused(capsys, "embed", text, out, *given, "--layers", "meaning")
    assert told in refused(
        capsys, "store", "fill", text, tmp_path / "s", *given, "--keep", "meaning"
    )
    pytest.importorskip("faiss", reason="the extra `search` is not installed")
    index = tmp_path / "index"
    build = ["index", text, *given, "--output", index, "--words", "0", "--quiet"]
    assert told in refused(capsys, *build, "--keep", "meaning")
    assert main([*map(str, build)]) == 0
    told = "layer is 'meaning', but the index keeps the average of all layers"
    assert told in refused(capsys, "senses", index, "bank", "--layer", "meaning")
