"""Ten pieces of code as people write them with AllenNLP, with the import line changed. Vectors are
compared with the oracle's or with each other."""

import copy
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import nn

from elmore.integrations.allennlp import (
    ConfigurationError,
    Elmo,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    ScalarMix,
    batch_to_ids,
    remove_sentence_boundaries,
)
from tests.tiny_models import Tiny, make

SENTENCES = [["First", "sentence", "."], ["Another", "."]]
ATOL = 2e-5


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path)


@pytest.fixture
def files(tiny: Tiny) -> tuple[str, str]:
    return str(tiny.options_path), str(tiny.weights)


def test_1_the_tutorial(tiny: Tiny, files: tuple[str, str]):
    options_file, weight_file = files
    elmo = Elmo(options_file, weight_file, 2, dropout=0)
    embeddings = elmo(batch_to_ids(SENTENCES))
    assert len(embeddings["elmo_representations"]) == 2
    expected = tiny.layers(SENTENCES[0])[0].mean(axis=0)
    found = embeddings["elmo_representations"][1][0].detach()
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL)


def test_2_one_sentence_and_its_second_lstm_layer(tiny: Tiny, files: tuple[str, str]):
    elmo = ElmoEmbedder(*files)
    vectors = elmo.embed_sentence(["I", "ate", "an", "apple"])
    assert len(vectors) == 3
    assert len(vectors[0]) == 4
    expected = tiny.layers(["I", "ate", "an", "apple"])[0][2]
    np.testing.assert_allclose(vectors[2], expected, rtol=0, atol=ATOL)


def test_3_a_classifier_that_pools_words_by_the_mask(files: tuple[str, str]):
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.elmo = Elmo(*files, num_output_representations=1, requires_grad=False)
            self.out = nn.Linear(self.elmo.get_output_dim(), 2)

        def forward(self, sentences: list[list[str]]) -> torch.Tensor:
            output = self.elmo(batch_to_ids(sentences))
            vectors, mask = output["elmo_representations"][0], output["mask"].unsqueeze(-1)
            scores: torch.Tensor = self.out((vectors * mask).sum(1) / mask.sum(1))
            return scores

    torch.manual_seed(0)
    model = Classifier()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=0.1)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model.eval()(SENTENCES), torch.tensor([0, 1]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert len(trained) == 4 + 2  # the mix, and the layer above


def test_4_one_layer_by_frozen_mix_parameters(tiny: Tiny, files: tuple[str, str]):
    elmo = Elmo(*files, 1, dropout=0, scalar_mix_parameters=[-9e10, 1, -9e10])
    found = elmo(batch_to_ids(SENTENCES[:1]))["elmo_representations"][0][0]
    np.testing.assert_allclose(found, tiny.layers(SENTENCES[0])[0][1], rtol=0, atol=ATOL)


def test_5_a_dataset_reader_of_ones_own(files: tuple[str, str]):
    indexer = ELMoTokenCharactersIndexer()
    rows = []
    for sentence in SENTENCES:
        indexed = indexer.tokens_to_indices(sentence, None)
        rows.append(indexer.as_padded_tensor_dict(indexed, {"elmo_tokens": 3})["elmo_tokens"])
    assert torch.equal(torch.stack(rows), batch_to_ids(SENTENCES))
    embedder = ElmoTokenEmbedder(*files, projection_dim=5)
    assert embedder(torch.stack(rows)).shape == (2, 3, 5)


def test_6_vectors_of_a_file(tmp_path: Path, files: tuple[str, str]):
    (tmp_path / "in.txt").write_text("First sentence .\nAnother .\n")
    with (tmp_path / "in.txt").open() as lines:
        ElmoEmbedder(*files).embed_file(lines, tmp_path / "out.hdf5", output_format="average")
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert file["0"].shape == (3, 16)
        assert file["1"].shape == (2, 16)


def test_7_save_the_best_epoch_and_go_back_to_it(tmp_path: Path, files: tuple[str, str]):
    elmo = Elmo(*files, 1, requires_grad=True, dropout=0)
    ids = batch_to_ids(SENTENCES)
    before = elmo(ids)["elmo_representations"][0].detach()
    best = copy.deepcopy(elmo.state_dict())
    torch.save(elmo.state_dict(), tmp_path / "best.th")
    optimizer = torch.optim.SGD(elmo.parameters(), lr=1.0)
    elmo(ids)["elmo_representations"][0].square().sum().backward()
    optimizer.step()
    assert not torch.allclose(elmo(ids)["elmo_representations"][0], before, atol=1e-3)
    for state in (best, torch.load(tmp_path / "best.th", weights_only=True)):
        elmo.load_state_dict(state)
        after = elmo(ids)["elmo_representations"][0].detach()
        assert torch.allclose(after, before, rtol=0, atol=1e-6)


def test_8_state_reset_between_documents(files: tuple[str, str]):
    elmo = Elmo(*files, 1, dropout=0, stateful=True)
    ids = batch_to_ids(SENTENCES)
    first = elmo(ids)["elmo_representations"][0]
    elmo(ids)
    elmo._elmo_lstm._elmo_lstm.reset_states()
    assert torch.equal(elmo(ids)["elmo_representations"][0], first)


def test_9_the_layers_themselves_and_a_mix_of_ones_own(files: tuple[str, str]):
    bilm = Elmo(*files, 1)._elmo_lstm
    output = bilm(batch_to_ids(SENTENCES))
    mix = ScalarMix(mixture_size=3)
    vectors, mask = remove_sentence_boundaries(
        mix(output["activations"], output["mask"]), output["mask"]
    )
    elmo = Elmo(*files, 1, dropout=0)
    assert torch.allclose(vectors, elmo(batch_to_ids(SENTENCES))["elmo_representations"][0])
    assert mask.sum(dim=1).tolist() == [3, 2]


def test_10_wrong_options_are_caught_by_the_old_name(files: tuple[str, str]):
    caught = ""
    try:
        ScalarMix(3, initial_scalar_parameters=[1.0])
    except ConfigurationError as error:
        caught = str(error)
    assert caught == "1 mix weights given for 3 layers."
