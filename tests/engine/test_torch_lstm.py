"""Products with and without oneDNN's own order are the same numbers."""

import pytest
import torch

from elmore.engine import torch_lstm
from elmore.engine.torch_lstm import FixedWeights


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("n", [1, 5, 130])
def test_products_are_right(
    dtype: torch.dtype, packed: bool, n: int, monkeypatch: pytest.MonkeyPatch
):
    if not packed:
        monkeypatch.setattr(torch_lstm, "_packed", lambda w: None)
    torch.manual_seed(0)
    w, x, z, bias = (torch.randn(*shape) for shape in ((70, 33), (n, 33), (n, 90), (70,)))
    exact = x.double() @ w.double().T
    total = exact + z.double()[:, 10:80]
    with torch.inference_mode():
        weights = FixedWeights(w.to(dtype))
        rows, sums = x.to(dtype), z.to(dtype)[:, 10:80]  # a slice, as a layer gives it
        for found, expected in (
            (weights.times(rows), exact),
            (weights.times(rows, bias.to(dtype)), exact + bias.double()),
            (weights.added(sums.clone(), rows), total),
            (weights.added(sums, rows), total),
        ):
            torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-5)


def test_a_torch_without_that_order_is_no_error(monkeypatch: pytest.MonkeyPatch):
    def missing(*_: object) -> None:
        raise AttributeError

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing)
    assert FixedWeights(torch.zeros(3, 2)).times(torch.ones(1, 2)).tolist() == [[0, 0, 0]]
