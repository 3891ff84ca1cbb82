"""What AllenNLP's own tests of ELMo promise and no other file here shows: words beside a cache, the
names of trained parameters, padding by the indexer, and the two places where elmore differs."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmore.cli.main import main
from elmore.integrations import allennlp
from elmore.integrations.allennlp import (
    ConfigurationError,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    ScalarMix,
    batch_to_ids,
    remove_sentence_boundaries,
)
from tests.shared import SHARED, needs
from tests.tiny_models import Tiny, make

BATCH = [["Boats", "leave", "early"], ["Nobody", "waits"]]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


def word_ids(batch: list[list[str]], vocabulary: list[str]) -> torch.Tensor:
    """As a dataset reader of AllenNLP numbers words: 0 is padding, 1 a word it does not know."""
    ids = torch.zeros(len(batch), max(map(len, batch)), dtype=torch.int64)
    for row, words in zip(ids, batch, strict=True):
        known = [vocabulary.index(word) if word in vocabulary else 1 for word in words]
        row[: len(words)] = torch.tensor(known)
    return ids


@pytest.mark.parametrize("known", [BATCH[0], BATCH[0] + BATCH[1]])
def test_words_outside_of_the_cache_are_spelled(tiny: Tiny, known: list[str]) -> None:
    vocabulary = ["@@PADDING@@", "@@UNKNOWN@@", *known]
    plain = allennlp._ElmoBiLm(tiny.options_path, tiny.weights)
    cached = allennlp._ElmoBiLm(tiny.options_path, tiny.weights, vocab_to_cache=vocabulary)
    ids = batch_to_ids(BATCH)
    expected, found = plain(ids), cached(ids, word_ids(BATCH, vocabulary))
    assert torch.equal(found["mask"], expected["mask"])
    for ours, theirs in zip(found["activations"], expected["activations"], strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("asked", [True, False])
def test_gradients_by_the_names_of_parameters(tiny: Tiny, asked: bool) -> None:
    embedder = ElmoTokenEmbedder(tiny.options_path, tiny.weights, requires_grad=asked)
    embedder(batch_to_ids(BATCH)).sum().backward()
    inside = [p.grad for name, p in embedder.named_parameters() if "_elmo_lstm" in name]
    assert len(inside) > 10
    assert all((grad is not None) == asked for grad in inside)


def test_a_frozen_mix_keeps_its_numbers_and_five_tensors_are_not_three() -> None:
    mix = ScalarMix(3, initial_scalar_parameters=[3.0, 1.0, 2.0], trainable=False)
    assert [p.item() for p in mix.scalar_parameters] == [3.0, 1.0, 2.0]
    with pytest.raises(ConfigurationError, match="5 tensors given to a mix of 3"):
        mix([torch.zeros(2, 3, 4)] * 5)


def test_ids_that_no_text_has_are_embedded_and_projected(tiny: Tiny) -> None:
    embedder = ElmoTokenEmbedder(tiny.options_path, tiny.weights, projection_dim=5)
    odd = torch.zeros(1, 2, 50, dtype=torch.int64)
    odd[0, 0, :3], odd[0, 1, :2] = torch.tensor([9, 8, 7]), torch.tensor([2, 1])
    assert embedder(odd).shape == (1, 2, 5)
    assert embedder(odd[None, :, :1]).shape == (1, 1, 1, 5)


def test_an_empty_list_of_words_is_padded_with_zeros() -> None:
    indexer = ELMoTokenCharactersIndexer()
    empty = indexer.as_padded_tensor_dict(indexer.get_empty_token_list(), {"elmo_tokens": 1})
    assert torch.equal(empty["elmo_tokens"], torch.zeros(1, 50, dtype=torch.int64))
    ids = indexer.tokens_to_indices(["\u0100x"], None, "mine")
    assert ids["mine"][0][:5] == [259, 0xC4 + 1, 0x80 + 1, ord("x") + 1, 260]  # bytes of UTF-8
    old = indexer.as_padded_tensor(ids, {"mine": 2}, {})["mine"]  # AllenNLP 0.9
    assert old.tolist() == [ids["mine"][0], [0] * 50]


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_the_command_writes_what_the_embedder_gives(
    tiny: Tiny, tmp_path: Path, layers: str
) -> None:
    text, out = tmp_path / "in.txt", tmp_path / "out.hdf5"
    text.write_text("Boats leave / early\n", encoding="utf-8")
    model = ["--options", str(tiny.options_path), "--model", str(tiny.weights)]
    assert main(["embed", str(text), str(out), *model, "--layers", layers, "--quiet"]) == 0
    vectors = ElmoEmbedder(tiny.options_path, tiny.weights).embed_sentence(
        "Boats leave / early".split()
    )
    expected = {"all": vectors, "top": vectors[-1], "average": vectors.mean(axis=0)}[layers]
    with h5py.File(out) as file:
        assert set(file) == {"0", "sentence_to_index"}
        assert json.loads(file["sentence_to_index"][0]) == {"Boats leave / early": "0"}
        np.testing.assert_allclose(file["0"][...], expected, rtol=0, atol=1e-6)


@needs("fixtures", "allennlp-lstm")
def test_the_bilm_itself_gives_the_recorded_numbers_when_it_carries_state() -> None:
    folder = SHARED / "fixtures" / "allennlp-lstm"
    bilm = allennlp._ElmoBiLm(folder / "options.json", folder / "lm_weights.hdf5", stateful=True)
    rows = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    for i in range(3):
        batch = [row[i].split() for row in rows]
        output = bilm(batch_to_ids(batch))
        top, mask = remove_sentence_boundaries(output["activations"][2], output["mask"])
        assert mask.sum(dim=1).tolist() == [len(words) for words in batch]
        for k, words in enumerate(batch):
            with h5py.File(folder / f"lm_embeddings_{k}.hdf5") as file:
                expected = np.concatenate(list(file[str(i)][...]), axis=-1)
            np.testing.assert_allclose(top[k, : len(words)], expected, rtol=1e-5, atol=1e-6)


# What differs on purpose


def test_blank_lines_and_empty_sentences_have_no_words_and_the_width_of_the_model(
    tiny: Tiny, tmp_path: Path
) -> None:
    """AllenNLP stops at a blank line, and says 1024 of every model."""
    embedder = ElmoEmbedder(tiny.options_path, tiny.weights)
    assert embedder.embed_sentence([]).shape == (3, 0, 16)
    embedder.embed_file(["A", "", "", "B"], tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert [file[str(i)].shape for i in range(4)] == [(3, n, 16) for n in (1, 0, 0, 1)]
