"""Files of vectors against the oracle: every format, every layout, the originals' state."""

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.dump import lines as windows
from elmore.dump.config import DumpConfig
from elmore.dump.dump import DumpProgress, dump
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from tests.tiny_models import Tiny

LINES = ["The river bank .", "", "  one  ", "naïve 東京 a/b", "one", "..", "x " * 30]
TOLERANCE = 1e-5


def words_of(line: str) -> list[str]:
    return line.split()


def test_hdf5_has_allennlps_layout_and_the_oracles_numbers(
    tiny: Tiny, tiny_embedder: Embedder, tmp_path: Path
):
    report = dump(tiny_embedder, LINES, tmp_path / "a.hdf5", DumpConfig())
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert set(file) == {*map(str, range(len(LINES))), "sentence_to_index"}
        for i, line in enumerate(LINES):
            assert file[str(i)].dtype == np.float32
            expected = tiny.layers(words_of(line))[0]
            assert file[str(i)].shape == expected.shape == (3, len(line.split()), 16)
            np.testing.assert_allclose(file[str(i)], expected, rtol=0, atol=TOLERANCE)
        sentences = file["sentence_to_index"]
        assert sentences.shape == (1,)
        assert h5py.check_string_dtype(sentences.dtype).length is None
        index = json.loads(sentences[0])
    assert index == {
        "The river bank .": "0",
        "one": "4",
        "naïve 東京 a/b": "3",
        "..": "5",
        ("x " * 30).strip(): "6",
    }
    assert (report.lines, report.words, report.blank, report.repeated) == (7, 40, 1, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdf5"]


@pytest.mark.parametrize("choice", ["top", "average", "0,2"])
def test_chosen_layers_are_the_oracles(
    tiny: Tiny, tiny_embedder: Embedder, tmp_path: Path, choice: str
):
    config = DumpConfig(layers=choice, forget_sentences=True)
    dump(tiny_embedder, LINES, tmp_path / "a.hdf5", config)
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert "sentence_to_index" not in file
        for i, line in enumerate(LINES):
            layers = tiny.layers(words_of(line))[0]
            expected = {"top": layers[2], "average": layers.mean(axis=0)}.get(
                choice, layers[[0, 2]]
            )
            np.testing.assert_allclose(file[str(i)], expected, rtol=0, atol=TOLERANCE)


def test_a_stateful_run_carries_state_by_row(tiny: Tiny, tiny_embedder: Embedder, tmp_path: Path):
    lines = [f"word{i} and {i % 3} more" for i in range(8)]
    config = DumpConfig(stateful=True, batch_sentences=3)
    dump(tiny_embedder, lines, tmp_path / "a.hdf5", config)
    rows: list[object] = [None, None, None]
    with h5py.File(tmp_path / "a.hdf5") as file:
        for i, line in enumerate(lines):
            expected, rows[i % 3] = tiny.layers(words_of(line), rows[i % 3])
            np.testing.assert_allclose(file[str(i)], expected, rtol=0, atol=TOLERANCE)
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdf5"]


def test_npz_has_the_same_arrays_under_the_same_names(tiny_embedder: Embedder, tmp_path: Path):
    dump(tiny_embedder, LINES, tmp_path / "a.hdf5", DumpConfig())
    dump(tiny_embedder, LINES, tmp_path / "a.npz", DumpConfig(format="npz"))
    with h5py.File(tmp_path / "a.hdf5") as file, np.load(tmp_path / "a.npz") as archive:
        assert set(archive) == set(file)
        for i in range(len(LINES)):
            np.testing.assert_array_equal(archive[str(i)], file[str(i)])
        index = json.loads(str(archive["sentence_to_index"][0]))
        assert index == json.loads(file["sentence_to_index"][0])


def test_json_lines_hold_every_bit_in_few_digits(tiny_embedder: Embedder, tmp_path: Path):
    dump(tiny_embedder, LINES, tmp_path / "a.jsonl", DumpConfig(format="jsonl"))
    text = (tmp_path / "a.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["index"] for row in rows] == list(range(len(LINES)))
    assert [row["words"] for row in rows] == [line.split() for line in LINES]
    expected = tiny_embedder.embed([words_of(line) for line in LINES])
    for row, embedding in zip(rows, expected, strict=True):
        layers = np.array(row["layers"], dtype=np.float32).reshape(embedding.layers.shape)
        np.testing.assert_array_equal(layers, embedding.layers)
    number = rows[0]["layers"][0][0][0]
    assert repr(number) == str(np.float32(number))


def test_json_lines_go_to_standard_output(tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch):
    buffer = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(buffer))
    dump(tiny_embedder, ["ü"], "-", DumpConfig(format="jsonl", layers="top"))
    assert json.loads(buffer.getvalue())["words"] == ["ü"]


@pytest.mark.parametrize("name", ["a.hdf5", "a.npz"])
def test_sentences_as_keys_are_stored_once_and_never_as_paths(
    tiny_embedder: Embedder, tmp_path: Path, name: str
):
    lines = ["a / b", ".", "...", "", "nul \0 here", "a / b", "plain", "plain"]
    config = DumpConfig(format="npz" if name.endswith("npz") else "hdf5", use_sentence_keys=True)
    report = dump(tiny_embedder, lines, tmp_path / name, config)
    keys = {"a ∕ b", "․", "․․․", "nul ␀ here", "plain"}
    if name.endswith("npz"):
        with np.load(tmp_path / name) as archive:
            assert set(archive) == keys
    else:
        with h5py.File(tmp_path / name) as file:
            assert set(file) == keys
            assert file["a ∕ b"].attrs["sentence"] == "a / b"
            assert file["․"].attrs["sentence"] == "."
            assert file["nul ␀ here"].attrs["sentence"] == "nul ␀ here"
            assert "sentence" not in file["plain"].attrs
    assert (report.lines, report.blank, report.repeated) == (8, 1, 2)


def test_an_empty_input_makes_an_empty_file(tiny_embedder: Embedder, tmp_path: Path):
    report = dump(tiny_embedder, [], tmp_path / "a.hdf5", DumpConfig())
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert list(file) == ["sentence_to_index"]
    assert report.lines == 0


@pytest.mark.parametrize("name", ["a.hdf5", "a.npz"])
def test_a_map_that_is_too_large_is_left_out_and_said(
    tiny_embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(windows, "MAX_MAP_BYTES", 30)
    config = DumpConfig(format="npz" if name.endswith("npz") else "hdf5")
    assert dump(tiny_embedder, LINES, tmp_path / name, config).map_left_out
    if name == "a.hdf5":
        with h5py.File(tmp_path / name) as file:
            assert set(file) == set(map(str, range(len(LINES))))


@pytest.mark.parametrize("name", ["a.hdf5", "a.npz", "a.jsonl"])
def test_bad_input_leaves_nothing_behind(tiny_embedder: Embedder, tmp_path: Path, name: str):
    with pytest.raises(InputError):
        dump(tiny_embedder, ["a", "\ud800"], tmp_path / name, DumpConfig(format=FORMAT[name]))
    assert list(tmp_path.iterdir()) == []


FORMAT = {"a.hdf5": "hdf5", "a.npz": "npz", "a.jsonl": "jsonl"}


def test_a_layer_that_is_not_there_is_refused_before_anything_is_written(
    tiny_embedder: Embedder, tmp_path: Path
):
    with pytest.raises(ConfigError, match="layers 0 to 2"):
        dump(tiny_embedder, LINES, tmp_path / "a.hdf5", DumpConfig(layers="3"))
    assert list(tmp_path.iterdir()) == []


def test_progress_reaches_the_end(tiny_embedder: Embedder, tmp_path: Path):
    seen: list[DumpProgress] = []
    lines = ["some words here"] * 400
    config = DumpConfig(batch_words=32, format="npz")
    dump(tiny_embedder, lines, tmp_path / "a.npz", config, progress=seen.append)
    assert len(seen) > 3
    assert (seen[-1].lines, seen[-1].words, seen[-1].bytes) == (400, 1200, 400 * 16)
