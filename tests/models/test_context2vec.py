"""context2vec computes what its equations say, whatever the batch: contexts, loss and gradient."""

from typing import Any

import numpy as np
import pytest
import torch

from elmore.models.context2vec import Context2vec, Context2vecConfig, told_apart_loss
from tests.oracle import context2vec as oracle

ROWS = [[0, 5, 6, 7, 2, 1], [0, 8, 1], [0, 3, 3, 9, 1]]


@pytest.fixture(scope="module")
def model() -> Context2vec:
    torch.manual_seed(1)
    made = Context2vec(Context2vecConfig(n_words=10, word_dim=4, hidden=5, dim=6))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def weights(model: Context2vec) -> dict[str, Any]:
    return {name: p.detach().double().numpy() for name, p in model.named_parameters()}


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    rows = [torch.tensor(row) for row in ROWS]
    lengths = torch.tensor([len(row) for row in ROWS])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths


def test_contexts_are_those_of_the_oracle(model: Context2vec):
    found = model.contexts(*batch()).detach().numpy()
    for i, row in enumerate(ROWS):
        for place in range(1, len(row) - 1):
            expected = oracle.context(row, place, weights(model))
            np.testing.assert_allclose(found[i, place - 1], expected, rtol=0, atol=1e-5)


def test_the_loss_is_that_of_the_oracle_and_its_gradient_too(model: Context2vec):
    ids, lengths = batch()
    known = torch.arange(ids.shape[1] - 2) < (lengths - 2).unsqueeze(1)
    known &= ids[:, 1:-1] != 2  # a word that is not listed is not predicted
    drawn = torch.from_numpy(np.random.default_rng(0).integers(3, 10, (int(known.sum()), 4)))
    same = drawn == ids[:, 1:-1][known].unsqueeze(1)
    assert same.any()
    loss = told_apart_loss(model.scores(ids, lengths, drawn, known), same)
    places = [(i, p) for i, row in enumerate(ROWS) for p in range(1, len(row) - 1) if row[p] != 2]

    def expected(numbers: dict[str, Any]) -> float:
        pairs = zip(places, drawn.tolist(), strict=True)
        return sum(oracle.loss(ROWS[i], p, some, numbers) for (i, p), some in pairs)

    assert loss.item() == pytest.approx(expected(weights(model)), abs=1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        numbers = weights(model)
        place = np.unravel_index(np.abs(numbers[name]).argmax(), numbers[name].shape)
        place = (5, *place[1:]) if name.endswith("words") or name == "vectors" else place
        numbers[name][place] += 1e-6
        up = expected(numbers)
        numbers[name][place] -= 2e-6
        slope = (up - expected(numbers)) / 2e-6
        assert parameter.grad is not None
        found = parameter.grad.to_dense()[place].item()
        assert found == pytest.approx(slope, abs=2e-4), name
