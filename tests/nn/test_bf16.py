"""Training in bfloat16 by the compiled kernel: against the same equations in double, with numbers
rounded where the kernel rounds them; and that rows, threads and directions do not meet.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.nn import lstm_autograd
from elmore.nn import softmax as softmax_module
from elmore.nn.bf16_kernel import find_bf16, multiply, panels
from elmore.nn.lstm import LSTMConfig, LSTMLayer
from elmore.nn.softmax import Softmax

KERNEL = find_bf16()
pytestmark = pytest.mark.skipif(KERNEL is None, reason="this CPU has no units for bfloat16")

CONFIGS = [
    LSTMConfig(dim=16, cell_dim=48, cell_clip=0.9, proj_clip=0.4),
    LSTMConfig(dim=80, cell_dim=32, cell_clip=None, proj_clip=None),
    LSTMConfig(dim=48, cell_dim=48, cell_clip=0.9, forget_bias=0.0),  # no projection
]
ACTIVE = [7, 7, 5, 5, 2, 1]


@pytest.fixture(autouse=True, params=[False, True], ids=["vectors", "tiles"])
def _units(request: pytest.FixtureRequest) -> Iterator[None]:
    """With vectors alone, and by AMX tiles where the CPU has them."""
    assert KERNEL is not None
    if KERNEL.use_tiles(request.param) != request.param:
        pytest.skip("this CPU has no AMX tiles")
    yield
    KERNEL.use_tiles(True)


class Rounded(torch.autograd.Function):
    """A number rounded to bfloat16; its gradient is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.to(torch.bfloat16).double()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class RoundedBack(torch.autograd.Function):
    """A number as it is; its gradient is rounded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.to(torch.bfloat16).double()


def slow(layer: LSTMLayer, x: Tensor, h: Tensor, c: Tensor, active: list[int]) -> list[Tensor]:
    """All steps in double, a step at a time."""
    config, low = layer.config, Rounded.apply
    w_x, w_h = low(layer.w_input), low(layer.w_state)
    y, h_end, c_end = torch.zeros(*x.shape[:3], config.dim).double(), h.clone(), c.clone()
    for t, n in enumerate(active):
        h, c = h[:, :n], c[:, :n]
        z = low(x[:, t, :n]) @ w_x.mT + low(h) @ w_h.mT + layer.opened_bias().unsqueeze(1)
        i, f, g, o = RoundedBack.apply(z).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c if config.cell_clip is None else c.clamp(-config.cell_clip, config.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if layer.w_project is not None:
            h = RoundedBack.apply(low(h) @ low(layer.w_project).mT)
            h = h if config.proj_clip is None else h.clamp(-config.proj_clip, config.proj_clip)
        y[:, t, :n], h_end[:, :n], c_end[:, :n] = h, h, c
    return [y, h_end, c_end]


def filled(config: LSTMConfig, directions: int, x_dim: int) -> tuple[LSTMLayer, list[Tensor]]:
    torch.manual_seed(1)
    layer = LSTMLayer(config, directions, x_dim)
    torch.nn.init.normal_(layer.bias, std=0.3)
    rows = ACTIVE[0]
    x = torch.randn(directions, len(ACTIVE), rows, x_dim)
    states = (0.3 * torch.randn(directions, rows, n) for n in (config.dim, config.cell_dim))
    return layer, [x, *states]


def both_ways(found: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Outputs, and gradients of a function of all of them."""
    weights = torch.linspace(-1, 1, found[0].numel()).view_as(found[0])
    total = (found[0] * weights).sum() + found[1].square().sum() + found[2].sin().sum()
    return [*found, *torch.autograd.grad(total, leaves)]


def by_kernel(layer: LSTMLayer, inputs: list[Tensor], active: list[int]) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in inputs]
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(*leaves, active)
    return both_ways([*found], [*leaves, *layer.parameters()])


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("x_dim", [6, 80])
def test_a_layer_is_the_slow_loop_with_the_same_roundings(
    config: LSTMConfig, directions: int, x_dim: int
):
    """Sums in float32 and in double may round to neighboring bfloat16 numbers, 2^-8 apart, now and
    then; gradients of weights and input are rounded once more at the end."""
    layer, inputs = filled(config, directions, x_dim)
    found = by_kernel(layer, inputs, ACTIVE)
    layer = layer.double()
    leaves = [t.double().requires_grad_() for t in inputs]
    expected = both_ways(slow(layer, *leaves, ACTIVE), [*leaves, *layer.parameters()])
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == torch.float32
        assert (a - b).norm() < (1e-3 if i < 3 else 4e-3) * b.norm(), i


@pytest.mark.parametrize("config", CONFIGS)
def test_one_step_is_exact_but_for_its_rounded_inputs(config: LSTMConfig):
    """Before anything is rounded again: to float32's rounding."""
    layer, (x, h, c) = filled(config, 2, 6)
    with torch.autocast("cpu", torch.bfloat16):
        _, _, cells = layer(x[:, :1], h, c, [7])
    expected = slow(layer.double(), x[:, :1].double(), h.double(), c.double(), [7])[2]
    torch.testing.assert_close(cells.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("directions", [1, 2])
def test_threads_change_no_bit(
    config: LSTMConfig, directions: int, monkeypatch: pytest.MonkeyPatch
):
    layer, inputs = filled(config, directions, 6)
    alone = by_kernel(layer, inputs, ACTIVE)
    for threads in (2, 3, 8, 40):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        for a, b in zip(alone, by_kernel(layer, inputs, ACTIVE), strict=True):
            assert torch.equal(a, b)


def test_a_row_has_the_same_bits_in_any_company():
    layer, (x, h, c) = filled(CONFIGS[0], 2, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        whole = layer(x, h, c, ACTIVE)
        for r in range(ACTIVE[0]):
            length = sum(n > r for n in ACTIVE)
            one = layer(x[:, :length, r : r + 1], h[:, r : r + 1], c[:, r : r + 1], [1] * length)
            assert torch.equal(one[0][:, :, 0], whole[0][:, :length, r])
            assert torch.equal(one[2][:, 0], whole[2][:, r])


def test_rows_may_have_nothing_to_read():
    layer, inputs = filled(CONFIGS[0], 2, 6)
    short = by_kernel(layer, inputs, [2, 1, 0, 0, 0, 0])
    assert torch.equal(short[1][:, 2:], inputs[1][:, 2:])  # the state stays
    assert not short[0][:, 2:].any()
    assert all(t.isfinite().all() for t in short)


def test_sizes_that_do_not_fill_its_vectors_are_not_the_kernels(monkeypatch: pytest.MonkeyPatch):
    asked: list[bool] = []
    monkeypatch.setattr(lstm_autograd, "whole_layer", lambda *args: asked.append(True) or (1 / 0))
    for dim, cells, x_dim in ((10, 48, 6), (16, 37, 6), (16, 48, 5)):
        layer, inputs = filled(LSTMConfig(dim=dim, cell_dim=cells), 2, x_dim)
        with torch.autocast("cpu", torch.bfloat16):
            layer(*inputs, ACTIVE)
    assert not asked
    layer, inputs = filled(CONFIGS[0], 2, 6)
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu", torch.bfloat16):
        layer(*inputs, ACTIVE)


@pytest.mark.parametrize("shape", [(1, 2, 16), (7, 34, 80), (49, 94, 144), (100, 192, 2048)])
def test_a_product_has_float32_sums(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch):
    assert KERNEL is not None
    n, n_in, n_out = shape
    torch.manual_seed(2)
    x, w = torch.randn(n, n_in).bfloat16(), torch.randn(n_out, n_in).bfloat16()
    start = torch.randn(n_out)
    exact = start.double() + x.double() @ w.double().T
    alone = multiply(KERNEL, panels(w, KERNEL), x, start)
    torch.testing.assert_close(alone.double(), exact, rtol=1e-5, atol=1e-5 * n_in**0.5)
    for threads in (2, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        assert torch.equal(multiply(KERNEL, panels(w, KERNEL), x, start), alone)
    for r in {0, n // 3, n - 1}:
        one = multiply(KERNEL, panels(w, KERNEL), x[r : r + 1].contiguous(), start)
        assert torch.equal(one[0], alone[r])


def test_many_rows_of_a_softmax_are_multiplied_in_parts(monkeypatch: pytest.MonkeyPatch):
    """Gradients are the same sums, of other parts, each of which is rounded."""
    torch.manual_seed(3)
    softmax, h, targets = Softmax(203, 24), torch.randn(700, 24), torch.randint(203, (700,))
    found = []
    for kept in (1 << 25, 203 * 200):
        monkeypatch.setattr(softmax_module, "_SCORES_IN_A_SLICE", 203 * 90)
        monkeypatch.setattr(softmax_module, "_KEPT", kept)
        softmax.zero_grad()
        leaf = h.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            softmax.loss(leaf, targets, np.random.default_rng(1)).backward()
        assert softmax.weight.grad is not None
        found.append((leaf.grad, softmax.weight.grad))
    for a, b in zip(*found, strict=True):
        assert (a - b).norm() < 3e-3 * b.norm()


@pytest.mark.parametrize("n_samples", [None, 40])
def test_a_softmax_has_nearly_the_exact_loss_and_gradients(n_samples: int | None):
    """Its scores come from rounded numbers, off by about 2^-9 of their size, but are not rounded
    themselves."""
    torch.manual_seed(3)
    softmax = Softmax(203, 24, n_samples)
    h, targets = torch.randn(150, 24), torch.randint(203, (150,))
    found = []
    for low in (False, True):
        softmax.zero_grad()
        leaf = h.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = softmax.loss(leaf, targets, np.random.default_rng(1))
        loss.backward()
        grads = (leaf.grad, softmax.weight.grad.to_dense(), softmax.bias.grad.to_dense())
        found.append((loss, *grads))
    (exact, *exact_grads), (loss, *grads) = found
    assert abs(loss - exact) < 1e-3 * exact
    assert loss != exact
    for a, b in zip(grads, exact_grads, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() < 6e-3 * b.norm()
