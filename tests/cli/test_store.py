"""`elmore store` from the outside: what each verb writes, says and refuses."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.cli.main import main
from elmore.embedder import Embedder
from elmore.files.lock import Lock
from elmore.store.layout import index_name, shard_name
from elmore.store.store import Store
from tests.tiny_models import make

TEXT = "The river bank .\n\nanother one\nThe river bank .\n" + "".join(
    f"line {i} of the text\n" for i in range(20)
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def filled(text: Path, tmp_path: Path, tiny_model: Path) -> Path:
    assert run("fill", text, tmp_path / "s", "--model", tiny_model, "--quiet") == 0
    return tmp_path / "s"


def run(*arguments: object) -> int:
    return main(["store", *map(str, arguments)])


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    return err


def test_fill_says_what_it_did_and_goes_on(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    fill = ["fill", text, tmp_path / "s", "--model", tiny_model]
    assert run(*fill, "--keep", "mix:0.2,0.5,0.3", "--gamma", 2, "--precision", "int8") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("22 sentences added (106 words), 1 there already, ")
    assert run(*fill, "--keep", "mix:0.2,0.5,0.3") == 0
    assert capsys.readouterr().err.startswith("0 sentences added (0 words), 23 there already, ")
    said = refused(capsys, *fill, "--keep", "mix:0.2,0.5,0.3", "--gamma", 3)
    assert "gamma 2.000" in said
    store, embedder = Store.open(tmp_path / "s"), Embedder.load(tiny_model)
    want = embedder.embed([["another", "one"]])[0].mix([0.2, 0.5, 0.3], gamma=2)
    np.testing.assert_allclose(store[["another", "one"]].layers[0], want, rtol=0, atol=0.1)


def test_info_says_what_is_there_and_what_is_saved(
    filled: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("info", filled) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["sentences"] == "22"
    assert lines["words"] == "106"
    assert lines["keeps"] == "layers 0, 1, 2"
    assert "bytes per word" in lines["on"]
    assert "times as much" in lines["full"]


def test_verify_names_what_is_damaged(filled: Path, capsys: pytest.CaptureFixture[str]):
    assert run("verify", filled) == 0
    assert capsys.readouterr().out.startswith("22 sentences, ")
    data = bytearray((filled / shard_name(0)).read_bytes())
    data[7] ^= 1
    (filled / shard_name(0)).write_bytes(data)
    assert run("verify", filled) == 2
    out, err = capsys.readouterr()
    assert out == (
        "vectors-00000.bin: sentence 0, the vectors of 'The river bank .' have changed\n"
    )
    assert "1 of 22 sentences are damaged" in err
    assert run("merge", filled, filled.parent / "copy") == 0
    err = capsys.readouterr().err
    assert "left out: " in err
    assert "21 sentences added" in err


def test_verify_tells_a_damaged_table_from_damaged_sentences(
    filled: Path, text: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    (filled / index_name(0)).write_bytes(bytes(8192))
    assert run("verify", filled) == 2
    out, err = capsys.readouterr()
    assert out.startswith("index-00000.bin: does not find 22 sentence(s);")
    assert "none of its 22 sentences" in err
    assert run("fill", text, filled, "--model", tiny_model) == 0
    assert "0 sentences added (0 words), " in capsys.readouterr().err
    assert run("verify", filled) == 0


def test_export_and_merge_write_what_they_are_asked(filled: Path, tmp_path: Path):
    assert run("export", filled, tmp_path / "a.hdf5", "--quiet") == 0
    with h5py.File(tmp_path / "a.hdf5") as file:
        np.testing.assert_array_equal(file["1"][()], Store.open(filled)[["another", "one"]].layers)
    assert run("merge", filled, filled, tmp_path / "b", "--quiet") == 0
    assert len(Store.open(tmp_path / "b")) == 22


def test_plan_counts_distinct_sentences_and_computes_nothing(
    text: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("plan", text, "--model", tiny_model) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "23 sentences, 110 words in the text"
    assert lines[1] == "22 sentences, 106 words distinct"
    assert any(line.startswith("one layer, average or mix   int8") for line in lines)


def test_a_projection_is_learned_from_the_text(text: Path, tmp_path: Path, tiny_model: Path):
    fill = ["fill", text, tmp_path / "s", "--model", tiny_model, "--quiet"]
    assert run(*fill, "--keep", "pca:10") == 0
    store = Store.open(tmp_path / "s")
    assert (store.n_layers, store.dim, len(store)) == (1, 10, 22)
    assert run(*fill, "--keep", "pca:10") == 0


def test_raw_text_is_tokenized_when_asked(tmp_path: Path, tiny_model: Path):
    (tmp_path / "raw").write_text("Don't stop.\n")
    fill = ["fill", tmp_path / "raw", tmp_path / "s", "--model", tiny_model, "--quiet"]
    assert run(*fill, "--tokenize") == 0
    assert ["Do", "n't", "stop", "."] in Store.open(tmp_path / "s")


def test_what_does_not_fit_is_refused_in_one_line(
    filled: Path,
    text: Path,
    tmp_path: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
):
    fill = ["fill", text, filled, "--model", tiny_model]
    new = ["fill", text, tmp_path / "new", "--model", tiny_model]
    other = make(tmp_path / "other", seed=1).weights
    for command, said in (
        ([*fill, "--keep", "average"], "it keeps layers 0, 1, 2, not average"),
        ([*fill, "--precision", "int8"], "its precision is float32, not int8"),
        (["fill", text, filled, "--model", other], "contains vectors of the model"),
        ([*new, "--keep", "best"], "keep is 'best'"),
        ([*new, "--keep", "pca:x"], "keep is 'pca:x'"),
        ([*new, "--keep", "pca:100000"], "A projection to 100000"),
        ([*new, "--gamma", "2"], "--gamma is the scale of a mix"),
        (["fill", tmp_path / "no.txt", filled, "--model", tiny_model], "no such file"),
        (["fill", "-", tmp_path / "new", "--model", tiny_model, "--keep", "pca:4"], "not -"),
        (["info", tmp_path], "not a store"),
        (["export", filled, tmp_path / "a.csv"], "unknown ending"),
        (["nothing"], "nothing"),
    ):
        assert said in refused(capsys, *command)
    lock = Lock(filled)
    assert "is writing to it" in refused(capsys, *["fill", text, filled, "--model", tiny_model])
    lock.release()
    assert not (tmp_path / "new").exists()
