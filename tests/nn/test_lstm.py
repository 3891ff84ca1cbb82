"""The LSTM's hand-written gradients against finite differences and a plain autograd loop."""

import pytest
import torch
from torch import Tensor

from elmore.nn.lstm import BiLSTM, LSTMConfig, LSTMState

ACTIVE = [3, 3, 2, 1]  # rows by falling length: 4, 3, 2


def filled(config: LSTMConfig) -> BiLSTM:
    """Parameters are a fixed wave, large enough that both clips are met."""
    stack = BiLSTM(config).double()
    with torch.no_grad():
        for i, p in enumerate(stack.parameters()):
            wave = torch.sin(torch.arange(p.numel(), dtype=p.dtype) * (1.0 + 0.1 * i))
            p.copy_((wave * 3 / p.shape[-1] ** 0.5).view_as(p))
    return stack


def clamped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp(-clip, clip)


def plain_loop(stack: BiLSTM, x: Tensor, state: LSTMState, active: list[int]):
    """The same numbers the slow way: autograd, a row at a time, a direction at a time."""
    config = stack.config
    outputs, hs, cs = [], [], []
    for depth, layer in enumerate(stack.layers):
        y = torch.zeros_like(x)
        h_end, c_end = state.h[depth].clone(), state.c[depth].clone()
        for s in (0, 1):
            for b in range(x.shape[2]):
                h, c = state.h[depth, s, b], state.c[depth, s, b]
                for t in range(x.shape[1]):
                    if b >= active[t]:
                        break
                    z = layer.w_input[s] @ x[s, t, b] + layer.w_state[s] @ h + layer.bias[s]
                    i, f, g, o = z.chunk(4)
                    f = f + config.forget_bias
                    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                    c = clamped(c, config.cell_clip)
                    h = torch.sigmoid(o) * torch.tanh(c)
                    if layer.w_project is not None:
                        h = clamped(layer.w_project[s] @ h, config.proj_clip)
                    y[s, t, b] = h
                h_end[s, b], c_end[s, b] = h, c
        x = y + x if config.skip and depth > 0 else y
        outputs.append(x)
        hs.append(h_end)
        cs.append(c_end)
    return outputs, LSTMState(torch.stack(hs), torch.stack(cs))


CONFIGS = [
    LSTMConfig(dim=2, cell_dim=3, n_layers=2, cell_clip=0.9, proj_clip=0.7),
    LSTMConfig(dim=2, cell_dim=3, n_layers=3, skip=False, cell_clip=None, proj_clip=None),
    LSTMConfig(dim=2, cell_dim=2, n_layers=2, cell_clip=0.9, proj_clip=0.7, forget_bias=0.0),
]


def inputs(config: LSTMConfig) -> tuple[Tensor, LSTMState]:
    generator = torch.Generator().manual_seed(1)
    shape = (config.n_layers, 2, 3)
    random = {"generator": generator, "dtype": torch.float64}
    x = torch.randn(2, 4, 3, config.dim, **random)
    for t, n in enumerate(ACTIVE):
        x[:, t, n:] = 0
    state = LSTMState(
        0.3 * torch.randn(*shape, config.dim, **random),
        0.3 * torch.randn(*shape, config.cell_dim, **random),
    )
    return x, state


@pytest.mark.parametrize("config", CONFIGS)
def test_outputs_states_and_gradients_equal_a_plain_autograd_loop(config: LSTMConfig):
    stack = filled(config)
    x, state = inputs(config)
    leaves = [x, state.h, state.c, *stack.parameters()]
    results = []
    for run in (lambda: stack.run(x, state, ACTIVE), lambda: plain_loop(stack, x, state, ACTIVE)):
        for leaf in leaves:
            leaf.requires_grad_(True)
            leaf.grad = None
        outputs, end = run()
        tensors = [*outputs, end.h, end.c]
        sum((torch.sin(t * (k + 1))).sum() for k, t in enumerate(tensors)).backward()
        results.append(([t.detach() for t in tensors], [leaf.grad for leaf in leaves]))
    for mine, plain in zip(*results, strict=True):
        for a, b in zip(mine, plain, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
def test_gradients_equal_finite_differences(config: LSTMConfig):
    stack = filled(config)
    x, state = inputs(config)
    names = [name for name, _ in stack.named_parameters()]

    def run(x: Tensor, h: Tensor, c: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        call = dict(zip(names, parameters, strict=True))
        outputs, end = torch.func.functional_call(
            _Run(stack), {f"stack.{k}": v for k, v in call.items()}, (x, LSTMState(h, c), ACTIVE)
        )
        return (*outputs, end.h, end.c)

    leaves = [x, state.h, state.c, *(p.detach().clone() for p in stack.parameters())]
    assert torch.autograd.gradcheck(run, [leaf.requires_grad_(True) for leaf in leaves], atol=1e-6)


class _Run(torch.nn.Module):
    """functional_call wants a forward; ours is `run`."""

    def __init__(self, stack: BiLSTM):
        super().__init__()
        self.stack = stack

    def forward(self, *args):
        return self.stack.run(*args)


def test_the_clips_are_met_in_these_tests():
    config = CONFIGS[0]
    outputs, end = filled(config).run(*inputs(config), ACTIVE)
    assert (end.c.abs() == config.cell_clip).any()
    assert (outputs[0].abs() == config.proj_clip).any()


def test_state_in_state_out_makes_two_halves_one_whole():
    config = CONFIGS[0]
    stack, (x, state) = filled(config), inputs(config)
    whole, end = stack.run(x, state)
    first, middle = stack.run(x[:, :2], state)
    second, last = stack.run(x[:, 2:], middle)
    for a, b, c in zip(whole, first, second, strict=True):
        torch.testing.assert_close(a, torch.cat([b, c], dim=1), rtol=0, atol=1e-14)
    torch.testing.assert_close(end.c, last.c, rtol=0, atol=1e-14)


def test_a_row_past_its_end_keeps_its_state():
    config = CONFIGS[0]
    stack, (x, state) = filled(config), inputs(config)
    _, end = stack.run(x, state, ACTIVE)
    _, early = stack.run(x[:, :2, 2:], LSTMState(state.h[:, :, 2:], state.c[:, :, 2:]))
    torch.testing.assert_close(end.h[:, :, 2:], early.h, rtol=0, atol=1e-14)


@pytest.mark.parametrize("config", CONFIGS)
def test_bfloat16_products_are_near_the_exact_ones_and_cells_stay_whole(config: LSTMConfig):
    """bfloat16 keeps 8 bits: a product is off by up to 2^-8 of its parts, a few in a row by more.

    Without the clips, whose edge a rounded number may cross, and with weights a third as large:
    where the model is chaotic, rounding says nothing about the products.
    """
    config = config.model_copy(update={"cell_clip": None, "proj_clip": None})
    stack = filled(config).float()
    with torch.no_grad():
        for p in stack.parameters():
            p /= 3
    x, state = inputs(config)
    x, state = x.float(), LSTMState(state.h.float(), state.c.float())
    results = []
    for low in (False, True):
        stack.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            outputs, end = stack.run(x, state, ACTIVE)
        outputs[-1].sin().sum().backward()
        results.append([*outputs, end.c, *(p.grad for p in stack.parameters())])
    for exact, rounded in zip(*results, strict=True):
        assert rounded.dtype == torch.float32
        assert not torch.equal(exact, rounded)
        assert (exact - rounded).norm() < 0.02 * exact.norm()
