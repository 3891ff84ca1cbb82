"""ELMoForManyLangs folders against the reference model with its recorded outputs, and random ones
against the oracle."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.checkpoint.sources import find_source, load, save
from elmore.embedder import Embedder
from elmore.errors import ConfigError, FormatError
from tests.checkpoint.foreign_models import (
    CHAR_DIC,
    MANYLANGS,
    WORD_DIC,
    make_manylangs,
    pack_zip,
)
from tests.oracle import manylangs
from tests.shared import SHARED, needs

FIXTURE = SHARED / "fixtures" / "elmoformanylangs" / "word_and_char.model"
SENTENCES = [
    ["the", "river", "bank"],
    ["x" * 300, "", "naïve", "今", "天", "\u3000", "👩‍🔬", "\ud800"],
    ["one"],
    [],
    ["<bos>", "literal", "<eos>", "<oov>", "t" * 48, "t" * 49],
]


def with_embedder(**changes: Any) -> dict[str, Any]:
    config = copy.deepcopy(MANYLANGS)
    config["token_embedder"].update(changes)
    return config


@needs("fixtures", "elmoformanylangs")
def test_the_reference_model_gives_its_recorded_layers():
    expected = np.load(FIXTURE / "expected.npz")
    elmo = Embedder.load(FIXTURE)
    for i, words in enumerate(json.loads((FIXTURE / "sentences.json").read_text("utf-8"))):
        with elmo.stateful() as run:
            (first,), (second,) = run.embed([words]), run.embed([words])
        np.testing.assert_allclose(first.layers, expected[f"first_{i}"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(second.layers, expected[f"second_{i}"], rtol=0, atol=1e-5)
        (alone,) = elmo.embed([words])
        np.testing.assert_allclose(alone.average, expected[f"avg_{i}"], rtol=0, atol=1e-5)


VARIETIES = {
    "words and characters": MANYLANGS,
    "characters only": with_embedder(word_dim=0),
    "tanh, no highway, short words": with_embedder(
        activation="tanh", n_highway=0, max_characters_per_token=12
    ),
}


@pytest.mark.parametrize("variety", VARIETIES)
@pytest.mark.parametrize("old", [True, False], ids=["old torch file", "new torch file"])
def test_random_models_agree_with_the_oracle(tmp_path: Path, variety: str, old: bool):
    config = VARIETIES[variety]
    W = make_manylangs(tmp_path / "model", config, old=old)
    for words, found in zip(
        SENTENCES, Embedder.load(tmp_path / "model").embed(SENTENCES), strict=True
    ):
        truth, _ = manylangs.layers(W, config, words, WORD_DIC, CHAR_DIC)
        np.testing.assert_allclose(found.layers, truth, rtol=0, atol=5e-6)


@pytest.mark.parametrize("variety", VARIETIES)
def test_a_zip_and_a_native_folder_hold_the_same_model(tmp_path: Path, variety: str):
    make_manylangs(tmp_path / "model", VARIETIES[variety])
    elmo = Embedder.load(tmp_path / "model")
    packed = Embedder.load(pack_zip(tmp_path / "model", tmp_path / "143.zip", "143/"))
    save(load(tmp_path / "model"), tmp_path / "native")
    native = Embedder.load(tmp_path / "native")
    assert elmo.fingerprint == packed.fingerprint == native.fingerprint
    for a, b in zip(native.embed(SENTENCES), elmo.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(a.layers, b.layers)


def test_another_dictionary_is_another_model(tmp_path: Path):
    make_manylangs(tmp_path / "model")
    before = Embedder.load(tmp_path / "model").fingerprint
    path = tmp_path / "model" / "char.dic"
    path.write_text(path.read_text("utf-8").replace("k\t", "q\t"), "utf-8")
    assert Embedder.load(tmp_path / "model").fingerprint != before


def test_without_the_file_it_names_the_tensors_tell_and_it_is_said(tmp_path: Path):
    make_manylangs(tmp_path / "model")
    wanted = load(tmp_path / "model")
    assert wanted.notes == ()
    (tmp_path / "model" / "cnn_tiny.json").unlink()
    found = load(tmp_path / "model")
    assert found.model.config == wanted.model.config
    assert "cnn_tiny.json is not beside config.json" in found.notes[0]
    save(found, tmp_path / "native")
    assert load(tmp_path / "native").notes == found.notes


def test_it_is_told_apart_from_the_other_folders(tmp_path: Path):
    make_manylangs(tmp_path / "model")
    assert find_source(tmp_path / "model").format == "manylangs"


@pytest.mark.parametrize("word_dim", [6, 0])
def test_it_does_not_fit_into_hdf5(tmp_path: Path, word_dim: int):
    make_manylangs(tmp_path / "model", with_embedder(word_dim=word_dim))
    with pytest.raises(FormatError, match="character dictionary of its own"):
        save(load(tmp_path / "model"), tmp_path / "out.hdf5")


def spoil(folder: Path, file: str, before: str, after: str) -> None:
    path = folder / file
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), "utf-8")


@pytest.mark.parametrize(
    ("file", "before", "after", "expected"),
    [
        ("char.dic", "<bow>", "bow", "character dictionary of .* lacks <bow>"),
        ("word.dic", "<oov>", "oov", "word dictionary of .* lacks <oov>"),
        ("word.dic", "river\t5", "river\tfive", "line 6: 'river\\\\tfive'; expected an item"),
        ("word.dic", "river\t5", "river\t7", "line 6: the id 7 is outside the model's table of 7"),
        ("word.dic", "river\t5", "river\t" + "9" * 5000, "is outside the model's table"),
        ("word.dic", "river\t5", "river\t-5", "expected an item"),
        ("cnn_tiny.json", '"elmo"', '"lstm"', "encoder.name"),
        ("cnn_tiny.json", '"char_dim": 4', '"char_dim": 5', "calls for float32 of shape"),
        ("cnn_tiny.json", '"n_layers": 2', '"n_layers": 1', "does not call for"),
        ("cnn_tiny.json", '"n_layers": 2', '"n_layers": 3', "'forward_layer_2.*' is missing"),
        ("cnn_tiny.json", '"dim": 12', '"dim": 8', "is float32 of shape|not supported"),
        ("config.json", "config_path", "path", "no 'config_path'"),
        ("config.json", "{", "[", "not JSON"),
    ],
)
def test_what_does_not_fit_is_one_line(
    tmp_path: Path, file: str, before: str, after: str, expected: str
):
    make_manylangs(tmp_path / "model")
    spoil(tmp_path / "model", file, before, after)
    with pytest.raises((FormatError, ConfigError), match=expected) as caught:
        load(tmp_path / "model")
    assert "\n" not in str(caught.value)
