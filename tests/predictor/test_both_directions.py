"""Substitutes by an ELMo, against the oracle, which never reads the word at the place."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import Predictor
from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.softmax import AdaptiveSoftmax, AdaptiveSoftmaxConfig, Softmax
from elmore.text.vocabulary import MARKS, Vocabulary
from tests.oracle import lstm_elmo
from tests.predictor.tiny_language_model import Weights, make_language_model
from tests.pretrain.tiny_runs import LSTM, TRANSFORMER
from tests.tiny_models import OPTIONS, WORDS

TOLERANCE = 1e-6  # of a probability; measured 2.1e-7
PLACES = [
    (["the", "river", "bank", "."], 2),
    (["the", "river", "bank", "."], 0),
    (["the", "river", "bank", "."], 3),
    (["one"], 0),
    (["naïve", "東京", "bank"], 1),
    (["the"] * 23, 11),
    (["x" * 80, "", "<UNK>", "\ud800"], 2),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    folder = tmp_path_factory.mktemp("lm")
    return folder / "weights.hdf5", make_language_model(folder)


def test_probabilities_are_the_oracles(model: tuple[Path, Weights]):
    path, W = model
    found = Predictor.load(path, device="cpu").substitutes(PLACES, top=99, whole_words=False)
    for (words, index), listed in zip(PLACES, found, strict=True):
        wanted = lstm_elmo.place_probabilities(W, OPTIONS, words, index, WORDS)
        assert sorted(one.word for one in listed) == sorted(WORDS)
        probabilities = [one.probability for one in listed]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1.0, abs=TOLERANCE)
        for one in listed:
            assert one.probability == pytest.approx(wanted[WORDS.index(one.word)], abs=TOLERANCE)


def test_marks_and_the_unknown_word_are_not_listed(model: tuple[Path, Weights]):
    predictor = Predictor.load(model[0], device="cpu")
    (all_of_it,) = predictor.substitutes(PLACES[:1], top=99, whole_words=False)
    (listed,) = predictor.substitutes(PLACES[:1], top=99)
    assert listed == [one for one in all_of_it if one.word not in MARKS]
    assert sum(one.probability for one in listed) < 1


def _random(config: BiLMConfig, adaptive: bool) -> Checkpoint:
    torch.manual_seed(0)
    vocabulary = Vocabulary([*MARKS, *"the river bank lent money we sat on a".split()])
    n, dim = len(vocabulary), config.context.dim
    head = (
        AdaptiveSoftmax(n, dim, AdaptiveSoftmaxConfig(cutoffs=(3, 7), div_value=2.0))
        if adaptive
        else Softmax(n, dim).linear()
    )
    model = BiLM(config).requires_grad_(False).eval()
    return bilm_checkpoint(model, vocabulary=vocabulary, softmax=head.eval())


@pytest.mark.parametrize("config", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
@pytest.mark.parametrize("adaptive", [False, True], ids=["full", "adaptive"])
def test_the_word_at_the_place_has_no_influence_and_its_neighbors_have(
    config: BiLMConfig, adaptive: bool
):
    predictor = Predictor(_random(config, adaptive), device="cpu")

    def ask(middle: str, before: str = "river", after: str = "lent") -> list[float]:
        words = ["the", before, middle, after, "money"]
        (found,) = predictor.substitutes([(words, 2)], top=99, whole_words=False)
        return [one.probability for one in sorted(found, key=lambda one: one.word)]

    asked = ask("bank")
    assert sum(asked) == pytest.approx(1.0, abs=TOLERANCE)
    for other in ("sat", "never seen", "東京"):
        np.testing.assert_allclose(ask(other), asked, rtol=0, atol=TOLERANCE)
    for changed in (ask("bank", before="on"), ask("bank", after="sat")):
        assert np.abs(np.array(changed) - asked).max() > 10 * TOLERANCE


def test_both_kinds_of_softmax_give_the_distribution_of_their_log_probabilities():
    torch.manual_seed(1)
    h, targets = torch.randn(5, 8), torch.tensor([0, 3, 6, 11, 2])
    heads = (
        Softmax(12, 8),
        AdaptiveSoftmax(12, 8, AdaptiveSoftmaxConfig(cutoffs=(3, 7), div_value=2.0)),
    )
    for head in heads:
        found = head.distribution(h)  # (5, 12)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(5), rtol=0, atol=1e-6)
        picked = found.gather(1, targets.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(picked, head.log_probs(h, targets), rtol=0, atol=1e-6)
