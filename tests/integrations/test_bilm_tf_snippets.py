"""Ten pieces of code as people write them with bilm-tf, in the new lines that docs/migrating.md
gives for the old ones. Vectors are compared with the oracle's."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import nn

from elmore import Elmo, Embedder
from elmore.checkpoint.sources import load, save
from elmore.integrations.bilm_tf import dump_bilm_embeddings, dump_token_embeddings
from tests.tiny_models import WORDS, Tiny, make

CONTEXT = [["the", "river", "bank", "."], ["naïve", "."]]
ATOL = 2e-5


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


def test_1_vectors_of_a_data_set_computed_once(tiny: Tiny, tmp_path: Path):
    data, out = tmp_path / "dataset_file.txt", tmp_path / "elmo_embeddings.hdf5"
    data.write_text("\n".join(map(" ".join, CONTEXT)) + "\n", encoding="utf-8")
    dump_bilm_embeddings(None, data, tiny.options_path, tiny.weights, out)
    with h5py.File(out, "r") as file:
        second_sentence = file["1"][...]
    np.testing.assert_allclose(second_sentence, tiny.layers(CONTEXT[1])[0], rtol=0, atol=ATOL)


def test_2_a_table_of_words_for_a_model_of_ones_own(tiny: Tiny, tmp_path: Path):
    vocabulary, out = tmp_path / "vocab_small.txt", tmp_path / "tokens.hdf5"
    words = ["<S>", "</S>", *dict.fromkeys(word for words in CONTEXT for word in words)]
    vocabulary.write_text("\n".join(words), encoding="utf-8")
    dump_token_embeddings(vocabulary, tiny.options_path, tiny.weights, out)
    with h5py.File(out, "r") as file:
        table = nn.Embedding.from_pretrained(torch.from_numpy(file["embedding"][...]))
    found = table(torch.tensor([words.index("bank")]))[0]
    np.testing.assert_allclose(found, tiny.layers(["bank"])[0][0, 0, :8], rtol=0, atol=ATOL)


def test_3_batches_of_sentences_as_they_come(tiny: Tiny):
    bilm = Embedder.load(tiny.weights)
    for words, embedding in zip(CONTEXT, bilm.embed(CONTEXT), strict=True):
        np.testing.assert_allclose(embedding.layers, tiny.layers(words)[0], rtol=0, atol=ATOL)


def test_4_equal_weights_at_first_and_a_penalty_for_others(tiny: Tiny):
    elmo = Elmo.load(tiny.weights, l2=0.001, dropout=0)
    vectors = elmo(CONTEXT).vectors[0]
    expected = tiny.layers(CONTEXT[0])[0].mean(axis=0)
    np.testing.assert_allclose(vectors[0].detach(), expected, rtol=0, atol=ATOL)
    assert elmo.penalty().item() == pytest.approx(0)  # of the raw weights, which begin at zero
    with torch.no_grad():
        elmo.mixes[0].scalars.fill_(2.0)
    assert elmo.penalty().item() == pytest.approx(0.001 * 3 * 4)


def test_5_one_bilm_with_weights_for_input_and_output(tiny: Tiny):
    elmo = Elmo.load(tiny.weights, n_mixes=2, dropout=0)
    with torch.no_grad():
        elmo.mixes[1].scalars.copy_(torch.tensor([-1e4, -1e4, 0.0]))
    below, above = elmo(CONTEXT[:1]).vectors
    layers = tiny.layers(CONTEXT[0])[0]
    np.testing.assert_allclose(below[0].detach(), layers.mean(axis=0), rtol=0, atol=ATOL)
    np.testing.assert_allclose(above[0].detach(), layers[2], rtol=0, atol=ATOL)


def test_6_only_the_top_layer(tiny: Tiny):
    (found,) = Embedder.load(tiny.weights).embed(CONTEXT[:1])
    np.testing.assert_allclose(found.top, tiny.layers(CONTEXT[0])[0][2], rtol=0, atol=ATOL)


def test_7_questions_and_contexts_share_the_bilm_and_each_has_its_mask(tiny: Tiny):
    elmo = Elmo.load(tiny.weights, dropout=0)
    questions, contexts = elmo([["which", "bank"]]), elmo(CONTEXT)
    assert questions.vectors[0].shape == (1, 2, 16)
    assert contexts.mask.sum(dim=1).tolist() == [4, 2]
    (alone,) = elmo(CONTEXT[1:]).vectors
    assert torch.allclose(contexts.vectors[0][1, :2], alone[0], rtol=0, atol=1e-6)


def test_8_a_model_that_reads_words_by_their_numbers(tmp_path: Path):
    tiny = make(tmp_path, words=True)
    words = ["the", "river", "bank", "."]
    (found,) = Embedder.load(tiny.weights).embed([words])
    np.testing.assert_allclose(found.layers, tiny.layers(words)[0], rtol=0, atol=ATOL)
    assert set(words) < set(WORDS)


def test_9_weights_written_for_other_programs(tiny: Tiny, tmp_path: Path):
    save(load(tiny.weights), tmp_path / "weights.hdf5")  # as `elmore convert` does
    with h5py.File(tmp_path / "weights.hdf5", "r") as ours, h5py.File(tiny.weights, "r") as theirs:
        names: list[str] = []
        theirs.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        assert names
        for name in names:
            np.testing.assert_array_equal(ours[name][...], theirs[name][...])


def test_10_only_the_weights_of_the_mix_are_trained(tiny: Tiny):
    elmo = Elmo.load(tiny.weights, dropout=0)
    trained = [parameter for parameter in elmo.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == 3 + 1  # of the layers, and gamma
    elmo(CONTEXT).vectors[0].sum().backward()
    assert all(parameter.grad is not None for parameter in trained)
