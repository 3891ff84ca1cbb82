"""The oracle on trial: it must give the outputs that came with published formats' real weights.

Where those files are absent these tests skip, and test_by_hand.py stands alone.
"""

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

from tests.oracle import lstm_elmo, manylangs, transformer_elmo

FIXTURES = Path(__file__).resolve().parents[2] / ".." / "shared" / "fixtures"
needs_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="the reference models of the published formats are not here"
)
Arrays = dict[str, npt.NDArray[Any]]


def torch_arrays(file: Any) -> Arrays:
    import torch

    loaded = torch.load(file, map_location="cpu", weights_only=True)
    return {name: tensor.numpy() for name, tensor in loaded.items()}


@needs_fixtures
@pytest.mark.parametrize("row", [0, 1, 2])
def test_lstm_top_layers_match_ten_batches_with_state_carried(row: int) -> None:
    folder = FIXTURES / "allennlp-lstm"
    W, options = lstm_elmo.read_hdf5(folder / "lm_weights.hdf5", folder / "options.json")
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))[row]
    state = None
    with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as expected:
        assert len(expected) == len(sentences) == 10
        for i, sentence in enumerate(sentences):
            layers, state = lstm_elmo.layers(W, options, sentence.split(), state)
            top = np.stack(np.split(layers[-1], 2, axis=1))  # (2, n, P)
            np.testing.assert_allclose(top, expected[str(i)][()], rtol=1e-5, atol=1e-6)


@needs_fixtures
def test_lstm_context_free_vectors_match() -> None:
    folder = FIXTURES / "allennlp-lstm"
    W, options = lstm_elmo.read_hdf5(folder / "lm_weights.hdf5", folder / "options.json")
    words = (folder / "vocab_test.txt").read_text("utf-8").split()
    ours = [lstm_elmo.word_vector(W, options, lstm_elmo.char_ids(word)) for word in words]
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as expected:
        np.testing.assert_allclose(np.stack(ours), expected["embedding"][()], rtol=0, atol=3e-6)


def transformer_fixture() -> tuple[Arrays, dict[str, Any], dict[str, Any], Any]:
    folder = FIXTURES / "allennlp-transformer"
    files = {}
    with tarfile.open(folder / "model.tar.gz") as archive:
        for name in ("config.json", "weights.th"):
            member = archive.extractfile(name)
            assert member is not None
            files[name] = member.read()
    strict = re.sub(r",(\s*[}\]])", r"\1", files["config.json"].decode("utf-8"))
    story = json.loads((folder / "transformer_elmo.json").read_text("utf-8"))
    expected = np.load(folder / "transformer_elmo.npz")
    return torch_arrays(io.BytesIO(files["weights.th"])), json.loads(strict), story, expected


@needs_fixtures
def test_transformer_layers_match_words_and_padding_alike() -> None:
    W, config, story, expected = transformer_fixture()
    for b, marked in enumerate(story["sentences"]):
        ids = [lstm_elmo.char_ids(word) for word in marked]
        assert ids == expected["char_ids"][b, : len(marked)].tolist()
        kept = transformer_elmo.layers(W, config, marked[1:-1], keep_marks=True)
        padded = transformer_elmo.padded_layers(W, config, marked[1:-1], 8)
        twice = np.tile(expected["layer0"][b], 2)  # stored once, D wide
        np.testing.assert_allclose(padded[0], twice, rtol=0, atol=1e-5)
        for layer in (1, 2, 3):
            truth = expected[f"layer{layer}"][b]
            np.testing.assert_allclose(padded[layer], truth, rtol=0, atol=1e-5)
            np.testing.assert_allclose(kept[layer], truth[: len(marked)], rtol=0, atol=1e-5)


@needs_fixtures
def test_transformer_losses_match_as_allennlp_reports_them() -> None:
    W, config, story, expected = transformer_fixture()
    sentences = [marked[1:-1] for marked in story["sentences"]]
    ours = transformer_elmo.losses_as_allennlp_reports(W, config, sentences, story["vocab"])
    truth = [expected[f"{name}_loss"] for name in ("forward", "backward", "avg")]
    np.testing.assert_allclose(ours, truth, rtol=0, atol=1e-4)
    plain = transformer_elmo.losses(W, config, sentences, story["vocab"])
    assert plain[0] == pytest.approx(float(truth[0]), abs=1e-4)
    assert plain[1] < truth[1] - 0.1, "padding adds a target to the reported backward loss"


@needs_fixtures
def test_transformer_positions_match() -> None:
    W, _, _, _ = transformer_fixture()
    stored = W["_contextualizer._position.positional_encoding"][0]
    ours = transformer_elmo.positional_encoding(5000, 16)
    np.testing.assert_allclose(ours, stored, rtol=0, atol=2e-4)  # angles up to 5000 in float32


@needs_fixtures
def test_manylangs_layers_match_on_both_calls_and_on_average() -> None:
    folder = FIXTURES / "elmoformanylangs" / "word_and_char.model"
    W = {**torch_arrays(folder / "token_embedder.pkl"), **torch_arrays(folder / "encoder.pkl")}
    config = json.loads((folder / "cnn_tiny.json").read_text("utf-8"))
    word_dic, char_dic = (manylangs.read_dic(folder / f"{name}.dic") for name in ("word", "char"))
    expected = np.load(folder / "expected.npz")
    for i, words in enumerate(json.loads((folder / "sentences.json").read_text("utf-8"))):
        first, state = manylangs.layers(W, config, words, word_dic, char_dic)
        second, _ = manylangs.layers(W, config, words, word_dic, char_dic, state)
        np.testing.assert_allclose(first, expected[f"first_{i}"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(second, expected[f"second_{i}"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(first.mean(0), expected[f"avg_{i}"], rtol=0, atol=1e-5)
