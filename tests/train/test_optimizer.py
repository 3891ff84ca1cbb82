"""Optimisers by rows against torch's own: the same on touched rows, nothing on the others."""

import pytest
import torch
from torch import Tensor, nn

from elmore.errors import ConfigError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.models.language_model import LanguageModel
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import Softmax
from elmore.train.optimizer import (
    AdagradConfig,
    AdamWConfig,
    Group,
    InPlaceConfig,
    RowAdagrad,
    RowAdam,
    build_optimizers,
    by_decay,
)

ROWS = [[0, 3, 3, 7], [3, 1], [7, 7, 0]]  # of three steps; row 5 and others never


def table() -> nn.Parameter:
    return nn.Parameter(torch.sin(torch.arange(20, dtype=torch.float64)).view(10, 2))


def gradient(step: int) -> Tensor:
    rows = torch.tensor(ROWS[step])
    values = torch.cos(torch.arange(2.0 * len(rows), dtype=torch.float64) + step).view(-1, 2)
    return torch.sparse_coo_tensor(
        rows.unsqueeze(0), values, (10, 2), check_invariants=True
    ).coalesce()


def trained(optimizer: torch.optim.Optimizer, p: nn.Parameter, *, sparse: bool) -> Tensor:
    for step in range(3):
        p.grad = gradient(step) if sparse else gradient(step).to_dense()
        optimizer.step()
    return p.detach()


@pytest.mark.parametrize("start", [1.0, 0.1])
def test_adagrad_by_rows_is_torchs_dense_adagrad(start: float):
    """A zero gradient moves nothing under Adagrad, so the dense one is the reference for all."""
    mine, theirs = table(), table()
    config = AdagradConfig(lr=0.2, initial_accumulator=start)
    found = trained(RowAdagrad([mine], config), mine, sparse=True)
    reference = torch.optim.Adagrad([theirs], lr=0.2, initial_accumulator_value=start, eps=0)
    torch.testing.assert_close(found, trained(reference, theirs, sparse=False), rtol=1e-12, atol=0)


def test_adam_by_rows_is_torchs_sparse_adam():
    mine, theirs = table(), table()
    config = AdamWConfig(lr=0.01, betas=(0.8, 0.99), eps=1e-7)
    found = trained(RowAdam([mine], config), mine, sparse=True)
    reference = torch.optim.SparseAdam([theirs], lr=0.01, betas=(0.8, 0.99), eps=1e-7)
    expected = trained(reference, theirs, sparse=True)
    # torch adds eps before the bias correction, which scales it: a difference of eps' size
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "make", [lambda p: RowAdagrad([p], AdagradConfig()), lambda p: RowAdam([p], AdamWConfig())]
)
def test_rows_without_a_gradient_stay_bit_equal(make):
    p, before = table(), table()
    trained(make(p), p, sparse=True)
    untouched = [k for k in range(10) if not any(k in rows for rows in ROWS)]
    assert torch.equal(p[untouched], before[untouched])
    assert not torch.isclose(p[[0, 1, 3, 7]], before[[0, 1, 3, 7]]).any()


@pytest.mark.parametrize("config", [AdagradConfig(), AdamWConfig()])
def test_the_state_of_row_optimisers_goes_into_a_checkpoint_and_back(config, tmp_path):
    """Two steps, a file, and the third: the same as three."""

    def built(p: nn.Parameter) -> torch.optim.Optimizer:
        return RowAdagrad([p], config) if config.kind == "adagrad" else RowAdam([p], config)

    whole = table()
    trained(built(whole), whole, sparse=True)
    p = table()
    first = built(p)
    for step in (0, 1):
        p.grad = gradient(step)
        first.step()
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = built(p)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    p.grad = gradient(2)
    second.step()
    assert torch.equal(p, whole)


def test_whole_tensors_and_rows_have_an_optimiser_each_and_biases_do_not_decay():
    module = nn.Sequential(nn.Linear(2, 3), nn.Embedding(5, 2))
    whole, rows = list(module[0].parameters()), list(module[1].parameters())
    groups = [Group(whole), Group(rows, by_rows=True)]
    dense, sparse = build_optimizers(AdamWConfig(weight_decay=0.1), groups)
    assert isinstance(dense, torch.optim.AdamW)
    assert isinstance(sparse, RowAdam)
    decays = {
        group["weight_decay"]: [p.ndim for p in group["params"]] for group in dense.param_groups
    }
    assert decays == {0.1: [2], 0.0: [1]}
    assert [p for group in sparse.param_groups for p in group["params"]] == [module[1].weight]
    assert len(build_optimizers(AdagradConfig(), groups[:1])) == 1


def test_a_group_has_a_rate_of_its_own_and_may_be_free_of_decay():
    slow, free = nn.Linear(2, 2), nn.Linear(2, 2)
    groups = [
        Group(list(slow.parameters()), rate=0.5),
        Group(list(free.parameters()), decay=False),
    ]
    (found,) = build_optimizers(AdamWConfig(lr=0.2, weight_decay=0.1), groups)
    settings = [(group["lr"], group["weight_decay"]) for group in found.param_groups]
    assert settings == [(0.1, 0.1), (0.1, 0.0), (0.2, 0.0)]


def test_biases_do_not_decay_even_if_they_are_matrices():
    """An LSTM's bias has a row per direction, a softmax's a row per word; gains are vectors."""
    words = CharCNNConfig(dim=8, char_dim=4, filters=((1, 4), (2, 8)), n_highway=1, layer_norm=True)
    context = LSTMConfig(dim=8, cell_dim=12)
    model = LanguageModel(BiLM(BiLMConfig(words=words, context=context)), Softmax(10, 8))
    names = {id(p): name for name, p in model.named_parameters()}
    decayed, free = by_decay(model, list(model.parameters()))
    assert (decayed.decay, free.decay) == (True, False)
    assert {id(p) for group in (decayed, free) for p in group.parameters} == names.keys()
    assert not [n for n in (names[id(p)] for p in decayed.parameters) if "bias" in n or "norm" in n]
    kept = {names[id(p)] for p in free.parameters}
    assert {"bilm.context.layers.0.bias", "softmax.bias", "bilm.words.norm.gamma"} <= kept
    assert all(p.ndim > 1 for p in decayed.parameters)
    assert len(decayed.parameters) + len(free.parameters) == len(names)


def test_weights_that_are_changed_in_place_have_no_optimizer():
    assert build_optimizers(InPlaceConfig(), []) == []
    with pytest.raises(ConfigError, match="is for static vectors"):
        build_optimizers(InPlaceConfig(), [Group([table()])])
