"""HDF5 weights against the published outputs and, in every variation, against the NumPy oracle;
then there and back again, bit for bit."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import nn

from elmore.checkpoint.bilm import bilm_checkpoint, softmax_of
from elmore.checkpoint.hdf5 import read_hdf5, write_hdf5
from elmore.checkpoint.native import read_native, write_native
from elmore.embedder import Embedder
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.text.vocabulary import Vocabulary
from tests.oracle import lstm_elmo
from tests.shared import SHARED, needs
from tests.tiny_models import OPTIONS, SENTENCES, WORDS, Tiny, make, options_with

FIXTURE = SHARED / "fixtures" / "allennlp-lstm"
needs_fixture = needs("fixtures", "allennlp-lstm")

VARIATIONS: dict[str, dict[str, Any]] = {
    "as published": OPTIONS,
    "no skip": options_with(lstm={"use_skip_connections": False}),
    "skip absent": options_with(lstm={"use_skip_connections": ...}),
    "tanh": options_with(char_cnn={"activation": "tanh"}),
    "filters number the projection": options_with(char_cnn={"filters": [[1, 3], [2, 5]]}),
    "no projection": options_with(lstm={"dim": 8}),
    "no projection, a small clip": options_with(lstm={"dim": 8, "proj_clip": 0.25}),
    "neither projection": options_with(lstm={"dim": 8}, char_cnn={"filters": [[4, 8]]}),
    "one layer": options_with(lstm={"n_layers": 1}),
    "three layers": options_with(lstm={"n_layers": 3}),
    "no highway": options_with(char_cnn={"n_highway": 0}),
    "highway absent": options_with(char_cnn={"n_highway": ...}),
    "two highways": options_with(char_cnn={"n_highway": 2}),
    "null clips": options_with(lstm={"cell_clip": None, "proj_clip": None}),
    "absent clips": options_with(lstm={"cell_clip": ..., "proj_clip": ...}),
    "tight clips": options_with(lstm={"cell_clip": 0.5, "proj_clip": 0.3}),
    "one clip": options_with(lstm={"cell_clip": 1, "proj_clip": None}),
    "10 characters": options_with(char_cnn={"max_characters_per_token": 10}),
    "60 characters": options_with(char_cnn={"max_characters_per_token": 60}),
    "as wide as a word": options_with(
        char_cnn={"max_characters_per_token": 5, "filters": [[1, 4], [5, 6]]}
    ),
    "261 characters as trained": options_with(char_cnn={"n_characters": 261}),
}


def load(tiny: Tiny) -> Embedder:
    vocabulary = None if tiny.vocab is None else tiny.weights.with_name("vocab.txt")
    checkpoint = read_hdf5(tiny.weights, tiny.options_path, vocabulary=vocabulary)
    return Embedder(checkpoint, device="cpu")


def assert_agrees(tiny: Tiny) -> None:
    for words, ours in zip(SENTENCES, load(tiny).embed(SENTENCES), strict=True):
        np.testing.assert_allclose(ours.layers, tiny.layers(words)[0], rtol=0, atol=5e-6)


@needs_fixture
def test_thirty_published_outputs_in_ten_batches_with_state_carried():
    embedder = Embedder(read_hdf5(FIXTURE / "lm_weights.hdf5", FIXTURE / "options.json"))
    rows = json.loads((FIXTURE / "sentences.json").read_text(encoding="utf-8"))
    files = [h5py.File(FIXTURE / f"lm_embeddings_{row}.hdf5") for row in range(3)]
    compared = 0
    with embedder.stateful() as run:
        for i in range(10):
            for ours, file in zip(run.embed([r[i].split() for r in rows]), files, strict=True):
                top = np.stack(np.split(ours.top, 2, axis=1))  # (2, n, P)
                np.testing.assert_allclose(top, file[str(i)][()], rtol=1e-5, atol=1e-6)
                compared += 1
    assert compared == 30


@needs_fixture
def test_published_context_free_vectors():
    embedder = Embedder(read_hdf5(FIXTURE / "lm_weights.hdf5", FIXTURE / "options.json"))
    words = (FIXTURE / "vocab_test.txt").read_text(encoding="utf-8").split()
    (ours,) = embedder.embed([words])
    with h5py.File(FIXTURE / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    assert expected.shape == (len(words), 16)
    np.testing.assert_allclose(ours.layers[0, :, :16], expected, rtol=0, atol=3e-6)
    np.testing.assert_array_equal(ours.layers[0, :, :16], ours.layers[0, :, 16:])


@pytest.mark.parametrize("name", VARIATIONS)
def test_every_variation_agrees_with_the_oracle(name: str, tmp_path: Path):
    assert_agrees(make(tmp_path, VARIATIONS[name], seed=len(name)))


@pytest.mark.parametrize("n_layers", [1, 2])
def test_word_input_models_agree_with_the_oracle(n_layers: int, tmp_path: Path):
    assert_agrees(make(tmp_path, options_with(lstm={"n_layers": n_layers}), words=True))


@pytest.mark.parametrize("name", ["as published", "no projection", "tight clips"])
def test_state_is_carried_over_batches_of_changing_size(name: str, tmp_path: Path):
    tiny = make(tmp_path, VARIATIONS[name])
    state: dict[int, Any] = {}
    with load(tiny).stateful() as run:
        for batch in (SENTENCES[:3], SENTENCES[3:4], SENTENCES[1:6]):
            for row, (words, ours) in enumerate(zip(batch, run.embed(batch), strict=True)):
                expected, state[row] = tiny.layers(words, state.get(row))
                np.testing.assert_allclose(ours.layers, expected, rtol=0, atol=5e-6)


def test_half_and_double_precision_weights_are_read_too(tmp_path: Path):
    tiny = make(tmp_path)
    lively = {name: array.astype(np.float16) for name, array in tiny.W.items()}
    for dtype in (np.float16, np.float64, ">f4"):
        with h5py.File(tiny.weights, "w") as file:
            for name, array in lively.items():
                file.create_dataset(name, data=array.astype(dtype))
        (ours,) = load(tiny).embed(SENTENCES[:1])
        expected, _ = lstm_elmo.layers(lively, tiny.options, SENTENCES[0])
        np.testing.assert_allclose(ours.layers, expected, rtol=0, atol=5e-6)


# There and back -----------------------------------------------------------------------------------


def datasets(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found


def assert_same_file(one: Path, other: Path) -> None:
    left, right = datasets(one), datasets(other)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype == np.float32
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@pytest.mark.parametrize("name", VARIATIONS)
def test_write_then_read_gives_the_same_bits_and_options(name: str, tmp_path: Path):
    tiny = make(tmp_path, VARIATIONS[name])
    first = read_hdf5(tiny.weights, tiny.options_path)
    weights, options = tmp_path / "again.hdf5", tmp_path / "again.json"
    write_hdf5(first, weights, options, None)
    assert_same_file(tiny.weights, weights)
    assert options.read_text() == json.dumps(tiny.options, indent=2) + "\n"
    again = Embedder(read_hdf5(weights, options)).embed(SENTENCES)
    for a, b in zip(again, Embedder(first).embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(a.layers, b.layers)


def test_training_settings_survive_and_numbers_keep_their_type(tmp_path: Path):
    training = {
        "all_clip_norm_val": 10.0,
        "n_train_tokens": 768648884,
        "unroll_steps": 20,
        "lstm": {**OPTIONS["lstm"], "cell_clip": 3, "note": "naïve"},
        "char_cnn": {**OPTIONS["char_cnn"], "embedding": {"dim": 4, "init": "U"}, "n": None},
        "bidirectional": True,
    }
    tiny = make(tmp_path, training)
    options = tmp_path / "again.json"
    write_native(read_hdf5(tiny.weights, tiny.options_path), tmp_path / "native")
    write_hdf5(read_native(tmp_path / "native"), tmp_path / "again.hdf5", options, None)
    again = json.loads(options.read_text(encoding="utf-8"))
    assert again == training
    assert type(again["lstm"]["cell_clip"]) is int
    assert type(again["all_clip_norm_val"]) is float


def test_through_native_and_back_the_bits_stay(tmp_path: Path):
    tiny = make(tmp_path, options_with(lstm={"proj_clip": ...}), words=True)
    vocabulary = tmp_path / "vocab.txt"
    softmax = tmp_path / "softmax.hdf5"
    table = {"softmax/W": np.ones((len(WORDS), 8)), "softmax/b": np.arange(len(WORDS))}
    lstm_elmo.write_hdf5(softmax, table)
    first = read_hdf5(tiny.weights, tiny.options_path, vocabulary=vocabulary, softmax=softmax)
    write_native(first, tmp_path / "native")
    native = read_native(tmp_path / "native", heads=True)
    again = [tmp_path / name for name in ("again.hdf5", "again.json", "again_softmax.hdf5")]
    write_hdf5(native, *again)
    assert_same_file(tiny.weights, again[0])
    assert_same_file(softmax, again[2])
    assert json.loads(again[1].read_text()) == tiny.options
    assert native.vocabulary is not None
    assert native.vocabulary.words == WORDS


def test_a_model_born_here_says_all_its_options(tmp_path: Path):
    words = CharCNNConfig(filters=((1, 4), (2, 5)), dim=6, n_highway=0)
    context = LSTMConfig(dim=6, cell_dim=7, cell_clip=None, forget_bias=0.5, dropout=0.1)
    checkpoint = bilm_checkpoint(BiLM(BiLMConfig(words=words, context=context)).eval())
    weights, options = tmp_path / "w.hdf5", tmp_path / "o.json"
    write_hdf5(checkpoint, weights, options, tmp_path / "none.hdf5")
    said = json.loads(options.read_text())
    assert said["lstm"]["cell_clip"] is None
    assert said["char_cnn"]["n_characters"] == 262
    assert not (tmp_path / "none.hdf5").exists()
    W, _ = lstm_elmo.read_hdf5(weights, options)
    (ours,) = Embedder(checkpoint).embed(SENTENCES[:1])
    expected, _ = lstm_elmo.layers(W, said, SENTENCES[0])  # the oracle opens the gate by 1, not 0.5
    np.testing.assert_allclose(ours.layers, expected, rtol=0, atol=5e-6)


def test_an_option_changed_since_is_said_anew(tmp_path: Path):
    tiny = make(tmp_path, options_with(lstm={"cell_clip": ...}))
    first = read_hdf5(tiny.weights, tiny.options_path)
    config = first.model.config.model_copy(
        update={"context": first.model.config.context.model_copy(update={"cell_clip": 2.5})}
    )
    model = BiLM(config)
    model.load_state_dict(first.model.state_dict())
    write_hdf5(bilm_checkpoint(model, options=first.options), tmp_path / "w", tmp_path / "o", None)
    said = json.loads((tmp_path / "o").read_text())
    assert said == {**tiny.options, "lstm": {**tiny.options["lstm"], "cell_clip": 2.5}}


def test_the_softmax_is_written_when_there_is_one(tmp_path: Path):
    tiny = make(tmp_path)
    softmax = nn.Linear(8, len(WORDS))
    model = read_hdf5(tiny.weights, tiny.options_path).model
    checkpoint = bilm_checkpoint(model, vocabulary=Vocabulary(WORDS), softmax=softmax)
    paths = [tmp_path / name for name in ("w.hdf5", "o.json", "s.hdf5")]
    write_hdf5(checkpoint, *paths)
    again = softmax_of(read_hdf5(*paths[:2], softmax=paths[2]))
    assert again is not None
    assert torch.equal(again.weight, softmax.weight)
    assert torch.equal(again.bias, softmax.bias)
