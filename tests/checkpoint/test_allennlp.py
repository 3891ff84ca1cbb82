"""AllenNLP archives against the reference model with its recorded outputs, and random ones of
every variety against the oracle."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmore.checkpoint.bilm import softmax_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from elmore.errors import ConfigError, FormatError, InputError
from elmore.text.vocabulary import WordReader
from tests.checkpoint.foreign_models import (
    N_ROWS,
    TASK,
    TOKENS,
    TRANSFORMER,
    make_task,
    make_transformer,
    pack_tar,
    save_tensors,
    transformer_with,
)
from tests.oracle import transformer_elmo
from tests.oracle.test_oracle import transformer_fixture
from tests.shared import SHARED, needs
from tests.tiny_models import OPTIONS, SENTENCES, options_with

FIXTURE = SHARED / "fixtures" / "allennlp-transformer"


def losses(checkpoint: Checkpoint, sentences: list[list[str]]) -> tuple[float, float, float]:
    """Forward, backward and average loss per target, over every row of the softmax."""
    softmax, vocabulary = softmax_of(checkpoint), checkpoint.vocabulary
    assert isinstance(softmax, torch.nn.Linear)
    assert vocabulary is not None
    batch = checkpoint.need_reader().read(sentences)
    rows, index, lengths = (
        torch.from_numpy(a) for a in (batch.spelled, batch.index, batch.lengths)
    )
    top = checkpoint.model.run(rows, index, lengths).states.layers[-1]  # (B, T, 2P)
    totals = np.zeros(2)
    for b, words in enumerate(sentences):
        ids = torch.from_numpy(WordReader(vocabulary).spell(["<S>", *words, "</S>"]))[:, 0]
        forward, backward = top[b, : len(ids)].chunk(2, dim=-1)
        for d, (h, targets) in enumerate(((forward[:-1], ids[1:]), (backward[1:], ids[:-1]))):
            loss = torch.nn.functional.cross_entropy(softmax(h), targets, reduction="sum")
            totals[d] += loss.item()
    forward_loss, backward_loss = totals / int((lengths - 1).sum())
    return forward_loss, backward_loss, (forward_loss + backward_loss) / 2


# Transformer ELMo


@needs("fixtures", "allennlp-transformer")
def test_the_reference_transformer_gives_its_recorded_layers():
    story = json.loads((FIXTURE / "transformer_elmo.json").read_text("utf-8"))
    expected = np.load(FIXTURE / "transformer_elmo.npz")
    sentences = [marked[1:-1] for marked in story["sentences"]]
    for b, found in enumerate(Embedder.load(FIXTURE / "model.tar.gz").embed(sentences)):
        place = slice(1, len(found) + 1)
        truth = [np.tile(expected["layer0"][b, place], 2)]  # stored once
        truth += [expected[f"layer{layer}"][b, place] for layer in (1, 2, 3)]
        np.testing.assert_allclose(found.layers, np.stack(truth), rtol=0, atol=1e-5)


@needs("fixtures", "allennlp-transformer")
def test_the_reference_transformer_gives_its_recorded_losses():
    """Forward as recorded. Backward, AllenNLP's padding adds a target behind each shorter sentence;
    how much that is only the oracle knows, which reproduces the recorded number."""
    story = json.loads((FIXTURE / "transformer_elmo.json").read_text("utf-8"))
    expected = np.load(FIXTURE / "transformer_elmo.npz")
    sentences = [marked[1:-1] for marked in story["sentences"]]
    checkpoint = load(FIXTURE / "model.tar.gz", heads=True)
    assert checkpoint.vocabulary is not None
    assert checkpoint.vocabulary.words[:2] == ["<UNK>", "<S>"]
    found = losses(checkpoint, sentences)
    assert found[0] == pytest.approx(float(expected["forward_loss"]), abs=1e-4)
    spurious = loss_of_padding(checkpoint, sentences)
    assert found[1] + spurious == pytest.approx(float(expected["backward_loss"]), abs=1e-4)
    average = (found[0] + found[1] + spurious) / 2
    assert average == pytest.approx(float(expected["avg_loss"]), abs=1e-4)


def loss_of_padding(checkpoint: Checkpoint, sentences: list[list[str]]) -> float:
    """The place behind a shorter sentence is asked for `</S>`; it sees nothing, so it looks
    everywhere, and only the oracle still imitates that."""
    W, config, story, _ = transformer_fixture()
    plain = transformer_elmo.losses(W, config, sentences, story["vocab"])
    said = transformer_elmo.losses_as_allennlp_reports(W, config, sentences, story["vocab"])
    np.testing.assert_allclose(losses(checkpoint, sentences), plain, rtol=0, atol=1e-5)
    return said[1] - plain[1]


VARIETIES: dict[str, dict[str, Any]] = {
    "projected after the highway, layer norm": transformer_with(),
    "projected after the convolutions": transformer_with(
        {"projection_location": "after_cnn", "do_layer_norm": False}
    ),
    "tanh, no highway": transformer_with({"activation": "tanh", "num_highway": 0}),
    "a dense softmax": transformer_with(sparse_embeddings=False),
    "a full softmax": transformer_with(sparse_embeddings=False, num_samples=None),
    "a square full softmax": transformer_with(
        {"projection_dim": N_ROWS},
        sparse_embeddings=False,
        num_samples=None,
        contextualizer=TRANSFORMER["model"]["contextualizer"] | {"input_dim": N_ROWS},
    ),
}


@pytest.mark.parametrize("variety", VARIETIES)
@pytest.mark.parametrize("old", [True, False], ids=["old torch file", "new torch file"])
def test_random_transformers_agree_with_the_oracle(tmp_path: Path, variety: str, old: bool):
    config = VARIETIES[variety]
    W = make_transformer(tmp_path / "model", config, old=old)
    checkpoint = load(tmp_path / "model", heads=True)
    sentences = [words for words in SENTENCES if words]
    for words, found in zip(sentences, Embedder(checkpoint).embed(sentences), strict=True):
        truth = transformer_elmo.layers(W, config, words)
        np.testing.assert_allclose(found.layers, truth, rtol=0, atol=5e-6)
    if config["model"]["num_samples"] is None:
        W["_softmax_loss.softmax_w"] = W["_softmax_loss.softmax_w"].T
    known = [["the", "river"], ["bank", "."], ["odd"]]
    truth = transformer_elmo.losses(W, config, known, ["@@PADDING@@", *TOKENS])
    np.testing.assert_allclose(losses(checkpoint, known), truth, rtol=0, atol=5e-6)


def test_a_config_with_comments_and_last_commas_is_read(tmp_path: Path):
    make_transformer(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    loose = "// by hand\n" + path.read_text()[:-1] + ', /* and */ "url": "https://x//y", # so\n}'
    path.write_text(loose)
    assert load(tmp_path / "model").options["url"] == "https://x//y"


def test_the_softmax_is_read_only_when_asked_for(tmp_path: Path):
    make_transformer(tmp_path / "model")
    assert softmax_of(load(tmp_path / "model")) is None
    softmax = softmax_of(load(tmp_path / "model", heads=True))
    assert isinstance(softmax, torch.nn.Linear)
    assert softmax.out_features == N_ROWS


def test_the_folder_of_a_training_run_is_read_too(tmp_path: Path):
    make_transformer(tmp_path / "model")
    (tmp_path / "model" / "weights.th").rename(tmp_path / "model" / "best.th")
    assert load(tmp_path / "model").model.config.context.kind == "transformer"


def test_a_transformer_carries_no_state(tmp_path: Path):
    make_transformer(tmp_path / "model")
    with pytest.raises(ConfigError, match="Transformer, which carries no state"):
        Embedder.load(tmp_path / "model").stateful()


def test_a_sentence_too_long_for_the_positions_is_refused(tmp_path: Path):
    make_transformer(tmp_path / "model")
    with pytest.raises(InputError, match="60 positions"):
        Embedder.load(tmp_path / "model").embed([["word"] * 59])


def test_a_transformer_does_not_fit_into_hdf5(tmp_path: Path):
    make_transformer(tmp_path / "model")
    with pytest.raises(FormatError, match="this one is a Transformer"):
        save(load(tmp_path / "model"), tmp_path / "out.hdf5")
    assert not (tmp_path / "out.hdf5").exists()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"filters": [[1, 4], [2, 8]]}, r"_highways\._layers\.0\.weight' is float32 of shape"),
        ({"filters": "many"}, "filters"),
        ({"embedding_dim": 5}, r"shape \(262, 4\), but the model's config calls for"),
        ({"num_highway": 1}, "does not call for"),
        ({"type": "boe"}, "type"),
    ],
)
def test_a_config_that_does_not_fit_the_tensors_says_which(
    tmp_path: Path, change: dict[str, Any], expected: str
):
    make_transformer(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(transformer_with(change)))
    with pytest.raises(FormatError, match=expected) as caught:
        load(tmp_path / "model")
    assert "\n" not in str(caught.value)


# LSTM ELMo inside a task's archive

TASK_VARIETIES = {
    "as published": OPTIONS,
    "tanh, no clips": options_with(
        char_cnn={"activation": "tanh", "n_highway": 2}, lstm={"cell_clip": ..., "proj_clip": ...}
    ),
    "as many filters as dimensions": options_with(char_cnn={"filters": [[1, 3], [2, 5]]}),
}


@pytest.mark.parametrize("variety", TASK_VARIETIES)
def test_the_elmo_in_a_task_agrees_with_the_oracle(tmp_path: Path, variety: str):
    options = TASK_VARIETIES[variety]
    W = make_task(tmp_path / "task", options)
    archive = pack_tar(tmp_path / "task", tmp_path / "model.tar.gz")
    elmo = Embedder.load(archive)
    for words, found in zip(SENTENCES, elmo.embed(SENTENCES), strict=True):
        truth, _ = transformer_elmo.task_archive_layers(W, options, words)
        np.testing.assert_allclose(found.layers, truth, rtol=0, atol=5e-6)


def test_learnt_mixes_come_back_as_numbers(tmp_path: Path):
    W = make_task(tmp_path / "task", n_mixes=2)
    mixes = load(tmp_path / "task").mixes
    assert len(mixes) == 2
    for k, mix in enumerate(mixes):
        scalars, gamma = transformer_elmo.task_archive_mix(W, k)
        assert mix.scalars == pytest.approx(scalars)
        assert mix.weights == pytest.approx(np.exp(scalars) / np.exp(scalars).sum())
        assert mix.gamma == pytest.approx(gamma)
        assert not mix.layer_norm


def test_options_are_found_by_their_base_name_too(tmp_path: Path):
    make_task(tmp_path / "task")
    kept = next((tmp_path / "task" / "fta").iterdir())
    kept.rename(tmp_path / "task" / "elmo_options.json")
    checkpoint = load(tmp_path / "task")
    assert checkpoint.options == OPTIONS
    assert checkpoint.notes == ()


def test_without_options_the_tensors_tell_and_it_is_said(tmp_path: Path):
    make_task(tmp_path / "task")
    wanted = load(tmp_path / "task")
    next((tmp_path / "task" / "fta").iterdir()).unlink()
    found = load(tmp_path / "task")
    assert found.model.config == wanted.model.config
    assert "lacks ELMo's options file" in found.notes[0]


def test_a_tasks_elmo_becomes_hdf5_and_its_mixes_native(tmp_path: Path):
    make_task(tmp_path / "task")
    checkpoint = load(tmp_path / "task")
    wanted = Embedder(checkpoint).embed(SENTENCES)
    save(checkpoint, tmp_path / "weights.hdf5")
    again = Embedder(read_hdf5(tmp_path / "weights.hdf5", tmp_path / "options.json"))
    for a, b in zip(again.embed(SENTENCES), wanted, strict=True):
        np.testing.assert_allclose(a.layers, b.layers, rtol=0, atol=1e-6)
    save(checkpoint, tmp_path / "native")
    assert load(tmp_path / "native").mixes == checkpoint.mixes


def test_a_projection_hdf5_would_leave_out_is_refused(tmp_path: Path):
    make_task(tmp_path / "task", TASK_VARIETIES["as many filters as dimensions"])
    with pytest.raises(FormatError, match="projects from 8 filters to as many"):
        save(load(tmp_path / "task"), tmp_path / "out.hdf5")


def test_an_archive_without_an_elmo_says_what_was_looked_for(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(TASK))
    save_tensors({"tagger.weight": np.ones((2, 2), np.float32)}, tmp_path / "weights.th")
    with pytest.raises(FormatError, match="contains no ELMo"):
        load(tmp_path)
