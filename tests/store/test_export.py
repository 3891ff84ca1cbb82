"""Exports as their readers see them."""

import builtins
import json
import resource
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.errors import ConfigError, InputError
from elmore.store.export import export
from elmore.store.store import Store
from tests.store.waves import sentences, wave, waves

WORDS = [*sentences(6), ["a/b", "\ud800", "é"]]


def made(folder: Path, **choice: object) -> Store:
    store = Store.create(folder, waves(), **choice)  # type: ignore[arg-type]
    store.fill(WORDS)
    return store


def test_hdf5_has_allennlps_layout(tmp_path: Path):
    export(made(tmp_path / "s"), tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        places = json.loads(file["sentence_to_index"][0])
        assert places[" ".join(WORDS[4])] == "4"
        assert set(file) == {"sentence_to_index", *map(str, range(len(WORDS)))}
        for i, words in enumerate(WORDS):
            np.testing.assert_array_equal(file[str(i)][()], wave(words))


def test_an_average_has_no_axis_of_layers(tmp_path: Path):
    export(made(tmp_path / "s", keep="average"), tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_allclose(file["5"][()], wave(WORDS[5]).mean(0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize(
    ("keep", "names"), [("2,0", ["layer_2", "layer_0"]), ("average", ["vector"])]
)
def test_arrow_has_a_row_a_word(tmp_path: Path, ending: str, keep: str, names: list[str]):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    from pyarrow import parquet

    store, path = made(tmp_path / "s", keep=keep), tmp_path / f"a{ending}"
    export(store, path)
    table = (
        parquet.read_table(path) if ending == ".parquet" else pyarrow.ipc.open_file(path).read_all()
    )
    assert table.column_names == ["sentence", "position", "word", *names]
    assert table.num_rows == sum(map(len, WORDS))
    assert table["word"].to_pylist()[-3:] == ["a/b", "?", "é"]
    for k, name in enumerate(names):
        want = np.concatenate([store[words].layers[k] for words in WORDS])
        np.testing.assert_array_equal(np.array(table[name].to_pylist(), np.float32), want)
    assert table["position"].to_pylist()[:6] == [0, 1, 0, 1, 2, 0]
    assert table["sentence"].to_pylist()[:3] == [1, 1, 2]
    assert table.schema.metadata[b"model"].decode() == store.fingerprint


def test_a_taken_or_unknown_target_is_refused(tmp_path: Path):
    store = made(tmp_path / "s")
    (tmp_path / "a.hdf5").touch()
    with pytest.raises(InputError, match="exists already"):
        export(store, tmp_path / "a.hdf5")
    with pytest.raises(ConfigError, match=r"expected .hdf5, .h5, .parquet, .arrow"):
        export(store, tmp_path / "a.csv")


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    store = made(tmp_path / "s")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'elmore\[arrow\]'"):
        export(store, tmp_path / "a.parquet")
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize("ending", [".hdf5", ".parquet", ".arrow"])
@pytest.mark.parametrize("n_bytes", [0, 1_000, 100_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, ending: str, n_bytes: int):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(1000))
    (tmp_path / "out").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        with pytest.raises(InputError, match=r"cannot be written \(.*File too large") as caught:
            export(store, tmp_path / "out" / f"a{ending}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(str(caught.value).splitlines()) == 1
    assert list((tmp_path / "out").iterdir()) == []
