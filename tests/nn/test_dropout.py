"""Dropout keeps its share, its mean and its seed."""

import pytest
import torch

from elmore.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.35, 0.5, 0.9])
def test_a_share_p_is_zeroed_and_the_rest_scaled(p: float):
    torch.manual_seed(0)
    x = torch.ones(1003, 999)
    y = Dropout(p)(x)
    share = (y == 0).double().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / x.numel()) ** 0.5  # five standard errors
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)))


def test_neighbours_are_decided_independently():
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(1_000_000)) == 0).double()
    for gap in (1, 2, 3, 4):
        together = (dropped[:-gap] * dropped[gap:]).mean().item()
        assert abs(together - 0.25) < 0.003


def test_the_seed_decides():
    x = torch.randn(37, 5)
    torch.manual_seed(3)
    first = Dropout(0.4)(x)
    torch.manual_seed(3)
    assert torch.equal(first, Dropout(0.4)(x))
    assert not torch.equal(first, Dropout(0.4)(x))


def test_gradients_pass_where_numbers_did():
    x = torch.randn(50, 4, requires_grad=True)
    y = Dropout(0.5)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(y == 0, 0.0, 2.0))


def test_it_rests_in_evaluation_and_at_zero():
    x = torch.randn(4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
