"""What a name or a path turns out to be, and what is said when it is nothing."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from elmore.checkpoint import source_names
from elmore.checkpoint.bilm import bilm_checkpoint, softmax_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.sources import Source, find_source, load, save
from elmore.embedder import Embedder
from elmore.errors import ElmoreError, FormatError, InputError
from elmore.text.vocabulary import Vocabulary
from tests.tiny_models import SENTENCES, WORDS, Tiny, make


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


def full(tiny: Tiny) -> Checkpoint:
    read = read_hdf5(tiny.weights, tiny.options_path)
    return bilm_checkpoint(
        read.model,
        vocabulary=Vocabulary(WORDS),
        softmax=nn.Linear(8, len(WORDS)),
        options=read.options,
    )


def complaint(source: str | Path, kind: type[ElmoreError]) -> str:
    with pytest.raises(kind) as caught:
        load(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_weights_and_their_folder_are_the_same_model(tiny: Tiny):
    wanted = Source("hdf5", tiny.weights, options=tiny.options_path)
    assert find_source(tiny.weights) == find_source(str(tiny.weights.parent)) == wanted


def test_published_pairs_are_told_apart(tiny: Tiny, tmp_path: Path):
    for name in ("small", "large"):
        shutil.copy(tiny.weights, tmp_path / f"{name}_weights.hdf5")
        shutil.copy(tiny.options_path, tmp_path / f"{name}_options.json")
    found = find_source(tmp_path / "large_weights.hdf5")
    assert found.options == tmp_path / "large_options.json"
    message = complaint(tmp_path, FormatError)
    assert "several weight files (large_weights.hdf5, small_weights.hdf5); name one" in message


def test_options_named_by_the_user_win(tiny: Tiny, tmp_path: Path):
    other = tmp_path / "other.json"
    shutil.move(tiny.options_path, other)
    assert find_source(tiny.weights, other).options == other
    assert find_source(tiny.weights.parent, str(other)).options == other
    assert "options are missing" in complaint(tiny.weights, FormatError)
    assert "options.json, weights_options.json, weights.json" in complaint(
        tiny.weights, FormatError
    )


def test_vectors_beside_the_weights_are_not_taken_for_them(tiny: Tiny):
    for name in ("lm_embeddings_0.hdf5", "softmax_weights.hdf5"):
        (tiny.weights.parent / name).write_bytes(b"")
    found = find_source(tiny.weights.parent)
    assert found.path == tiny.weights
    assert found.softmax == tiny.weights.parent / "softmax_weights.hdf5"


def test_a_folder_without_a_model_says_what_was_looked_for(tmp_path: Path):
    message = complaint(tmp_path, FormatError)
    for part in (str(tmp_path), "config.json", "model.safetensors", "*.hdf5", "options.json"):
        assert part in message


def test_a_file_of_another_kind_says_its_ending(tmp_path: Path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"")
    assert ".bin" in complaint(path, FormatError)


def test_near_names_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source_names, "shipped_names", lambda: ["small-en", "small-zh"])
    assert "Did you mean small-en" in complaint("smal-en", InputError)
    assert "small-en, small-zh" in complaint("nothing of the sort", InputError)
    (tmp_path / "my_model").mkdir()
    message = complaint(tmp_path / "my_modle", InputError)
    assert f"Did you mean {tmp_path / 'my_model'}?" in message


def test_near_names_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model").mkdir()
    assert "Did you mean my_model?" in complaint("my_modle", InputError)


@pytest.mark.parametrize("name", ["We sat on the bank. " * 500, "a\x00b", "\n"])
def test_a_text_given_for_a_name_is_just_not_found(name: str):
    assert "No model" in complaint(name, InputError)


# Saving -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["native", "out.hdf5"])
def test_what_is_saved_can_be_loaded(tiny: Tiny, tmp_path: Path, target: str):
    checkpoint = full(tiny)
    written = save(checkpoint, tmp_path / target)
    assert len(written) == 4
    assert all(path.is_file() for path in written)
    again = load(tmp_path / target, heads=True)
    assert again.vocabulary is not None
    assert again.vocabulary.words == WORDS
    assert softmax_of(again) is not None
    assert again.options == checkpoint.options
    for a, b in zip(
        Embedder(again).embed(SENTENCES), Embedder(checkpoint).embed(SENTENCES), strict=True
    ):
        np.testing.assert_array_equal(a.layers, b.layers)


@pytest.mark.parametrize("there", ["out.hdf5", "options.json", "vocab.txt", "out_softmax.hdf5"])
def test_nothing_is_written_over(tiny: Tiny, tmp_path: Path, there: str):
    (tmp_path / there).write_text("precious")
    with pytest.raises(InputError, match=f"{there} exists already"):
        save(full(tiny), tmp_path / "out.hdf5")
    assert (tmp_path / there).read_text() == "precious"
    assert {p.name for p in tmp_path.iterdir()} == {there, "model"}


def test_a_companion_that_is_not_written_may_be_there(tiny: Tiny, tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("precious")
    save(read_hdf5(tiny.weights, tiny.options_path), tmp_path / "out.hdf5")
    assert (tmp_path / "vocab.txt").read_text() == "precious"
    assert json.loads((tmp_path / "options.json").read_text()) == tiny.options


def test_saving_into_a_folder_that_is_not_there(tiny: Tiny, tmp_path: Path):
    with pytest.raises(InputError, match="no such folder"):
        save(full(tiny), tmp_path / "no" / "out.hdf5")


def test_a_word_model_without_its_words_says_where_to_put_them(tmp_path: Path):
    tiny = make(tmp_path, words=True)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(FormatError, match=r"put vocab\.txt .* beside the weights"):
        Embedder.load(tiny.weights)


def test_a_name_that_is_empty_is_told():
    with pytest.raises(InputError, match="name is empty"):
        find_source("")
