"""bilm-tf's checkpoints against the oracle: some written by hand, one by TensorFlow itself."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from elmore.checkpoint.bilm import softmax_of
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.sources import find_source, load, save
from elmore.checkpoint.tensor_bundle import TensorBundle, latest_checkpoint
from elmore.embedder import Embedder
from elmore.errors import FormatError
from elmore.models.bilm import without_marks
from tests.checkpoint.foreign_models import make_bilm_tf, pack_zip, tf_name
from tests.checkpoint.table_writer import block, float_entries, table
from tests.oracle import lstm_elmo
from tests.tiny_models import OPTIONS, SENTENCES, WORDS, options_with

BY_TENSORFLOW = Path(__file__).parent / "data" / "tf_bundle" / "bilm"
ITS_OPTIONS: dict[str, Any] = {
    "lstm": {
        "dim": 4, "projection_dim": 3, "n_layers": 2, "use_skip_connections": True,
        "cell_clip": 3, "proj_clip": 3,
    },
    "char_cnn": {
        "activation": "relu", "embedding": {"dim": 2}, "filters": [[1, 3], [2, 4]],
        "max_characters_per_token": 50, "n_characters": 261, "n_highway": 1,
    },
}  # fmt: skip
VARIETIES = {
    "as published": OPTIONS,
    "no projections, no skips": options_with(
        lstm={"dim": 15, "projection_dim": 15, "use_skip_connections": False, "proj_clip": ...}
    ),
    "261 characters": options_with(char_cnn={"n_characters": 261}),
    "words": {k: v for k, v in OPTIONS.items() if k != "char_cnn"},
}


@pytest.mark.parametrize("variety", VARIETIES)
def test_random_checkpoints_agree_with_the_oracle(tmp_path: Path, variety: str):
    options = VARIETIES[variety]
    W = make_bilm_tf(tmp_path / "run", options, vocab_size=len(WORDS))
    (tmp_path / "run" / "vocab.txt").write_text("".join(w + "\n" for w in WORDS), "utf-8")
    checkpoint = load(tmp_path / "run", heads=True)
    for words, found in zip(SENTENCES, Embedder(checkpoint).embed(SENTENCES), strict=True):
        truth, _ = lstm_elmo.layers(W, options, words, vocab=WORDS)
        np.testing.assert_allclose(found.layers, truth, rtol=0, atol=5e-6)
    assert isinstance(softmax_of(checkpoint), nn.Linear)
    np.testing.assert_array_equal(softmax_of(checkpoint).weight.numpy(), W["softmax/W"])
    np.testing.assert_array_equal(softmax_of(checkpoint).bias.numpy(), W["softmax/b"])
    assert softmax_of(load(tmp_path / "run")) is None


def test_three_layers_agree_in_float64(tmp_path: Path):
    """In float32 forty words of so lively a recurrence add up to 7e-6 of mere rounding."""
    options = options_with(lstm={"n_layers": 3})
    W = make_bilm_tf(tmp_path / "run", options)
    checkpoint = load(tmp_path / "run")
    batch = checkpoint.need_reader().read([SENTENCES[3]])
    inputs = (torch.from_numpy(a) for a in (batch.spelled, batch.index, batch.lengths))
    found = without_marks(checkpoint.model.double().run(*inputs).states).layers[:, 0]
    truth, _ = lstm_elmo.layers(W, options, SENTENCES[3])
    np.testing.assert_allclose(found.numpy(), truth, rtol=0, atol=1e-12)


def test_a_checkpoint_of_tensorflow_itself_agrees_with_the_oracle(tmp_path: Path):
    shutil.copytree(BY_TENSORFLOW, tmp_path / "run")
    (tmp_path / "run" / "options.json").write_text(json.dumps(ITS_OPTIONS))
    bundle = TensorBundle.open(latest_checkpoint(BY_TENSORFLOW))
    names = lstm_elmo.random_weights(ITS_OPTIONS, np.random.default_rng(0), 20)
    W = {name: bundle.read(tf_name(name)) for name in names}
    for words, found in zip(
        SENTENCES, Embedder.load(tmp_path / "run").embed(SENTENCES), strict=True
    ):
        truth, _ = lstm_elmo.layers(W, ITS_OPTIONS, words)
        np.testing.assert_allclose(found.layers, truth, rtol=0, atol=5e-6)


def test_folder_prefix_and_index_are_the_same_checkpoint(tmp_path: Path):
    make_bilm_tf(tmp_path / "run")
    found = find_source(tmp_path / "run")
    assert found.format == "bilm-tf"
    assert found == find_source(tmp_path / "run" / "model.ckpt-7")
    assert found == find_source(tmp_path / "run" / "model.ckpt-7.index")
    archive = pack_zip(tmp_path / "run", tmp_path / "run.zip", "elmo/")
    assert Embedder.load(archive).fingerprint == Embedder.load(tmp_path / "run").fingerprint


def test_one_layer_is_named_without_a_stack_around_it(tmp_path: Path):
    options = options_with(lstm={"n_layers": 1})
    W = make_bilm_tf(tmp_path / "run", options)
    values = {tf_name(n).replace("multi_rnn_cell/cell_0/", ""): a for n, a in W.items()}
    entries, data = float_entries(values)
    (tmp_path / "run" / "model.ckpt-7.index").write_bytes(table([block(entries)]))
    (tmp_path / "run" / "model.ckpt-7.data-00000-of-00001").write_bytes(data)
    (found,) = Embedder.load(tmp_path / "run").embed([["the", "bank"]])
    truth, _ = lstm_elmo.layers(W, options, ["the", "bank"])
    np.testing.assert_allclose(found.layers, truth, rtol=0, atol=5e-6)


def test_it_becomes_hdf5_and_native_bit_by_bit(tmp_path: Path):
    make_bilm_tf(tmp_path / "run")
    checkpoint = load(tmp_path / "run", heads=True)
    save(checkpoint, tmp_path / "weights.hdf5")
    save(checkpoint, tmp_path / "native")
    hdf5 = read_hdf5(tmp_path / "weights.hdf5", tmp_path / "options.json")
    wanted = Embedder(checkpoint).fingerprint
    assert Embedder(hdf5).fingerprint == Embedder.load(tmp_path / "native").fingerprint == wanted
    assert (tmp_path / "weights_softmax.hdf5").is_file()


def test_a_variable_without_a_place_is_named(tmp_path: Path):
    make_bilm_tf(tmp_path / "run")
    options = options_with(lstm={"n_layers": 1})
    (tmp_path / "run" / "options.json").write_text(json.dumps(options))
    with pytest.raises(FormatError, match=r"cell_1/lstm_cell/bias', which options\.json does not"):
        load(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"n_layers": 3}, "cell_2/lstm_cell/kernel' is missing"),
        ({"dim": 13}, r"is float32 of shape \(16, 48\), but options.json calls for"),
    ],
)
def test_options_of_another_model_are_refused(
    tmp_path: Path, change: dict[str, Any], expected: str
):
    make_bilm_tf(tmp_path / "run")
    (tmp_path / "run" / "options.json").write_text(json.dumps(options_with(lstm=change)))
    with pytest.raises(FormatError, match=expected):
        load(tmp_path / "run")


def test_missing_options_are_asked_for(tmp_path: Path):
    make_bilm_tf(tmp_path / "run")
    (tmp_path / "run" / "options.json").unlink()
    with pytest.raises(FormatError, match="options are missing"):
        load(tmp_path / "run")
