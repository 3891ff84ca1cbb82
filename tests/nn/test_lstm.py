"""The LSTM's hand-written gradients against finite differences and a plain autograd loop; the
compiled steps, one kernel an instruction set, against PyTorch's.
"""

import pytest
import torch
from torch import Tensor

from elmore.kernel_files import kernel_paths, load_library
from elmore.nn import lstm_autograd, lstm_steps
from elmore.nn.lstm import BiLSTM, LSTMConfig, LSTMState
from elmore.nn.lstm_steps import NativeSteps, Step, TorchSteps, find_native

NATIVE: dict[str, NativeSteps] = {
    name: NativeSteps(library)
    for name, path in kernel_paths().items()
    if path.is_file() and (library := load_library(path)) is not None
}
native = pytest.mark.parametrize(
    "name", list(NATIVE) or [pytest.param("", marks=pytest.mark.skip("no kernel was built here"))]
)
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


def everything(run, leaves: list[Tensor]) -> list[Tensor]:
    """Outputs, states and the gradients of all leaves."""
    for leaf in leaves:
        leaf.requires_grad_(True)
        leaf.grad = None
    outputs, end = run()
    tensors = [*outputs, end.h, end.c]
    sum((torch.sin(t * (k + 1))).sum() for k, t in enumerate(tensors)).backward()
    return [t.detach() for t in (*tensors, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("config", CONFIGS)
def test_outputs_states_and_gradients_equal_a_plain_autograd_loop(config: LSTMConfig):
    stack = filled(config)
    x, state = inputs(config)
    leaves = [x, state.h, state.c, *stack.parameters()]
    mine = everything(lambda: stack.run(x, state, ACTIVE), leaves)
    plain = everything(lambda: plain_loop(stack, x, state, ACTIVE), leaves)
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


# Compiled steps -----------------------------------------------------------------------------------

WIDE = [  # more cells than a vector has lanes, and not a multiple of them
    LSTMConfig(dim=10, cell_dim=37, n_layers=2, cell_clip=0.9, proj_clip=0.7),
    LSTMConfig(dim=10, cell_dim=37, n_layers=2, cell_clip=None, proj_clip=None),
    LSTMConfig(dim=19, cell_dim=19, n_layers=2, cell_clip=0.9, forget_bias=0.0),
]


def use(steps: NativeSteps | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm_autograd, "find_native", lambda: steps)


@native
@pytest.mark.parametrize("config", [*CONFIGS, *WIDE])
@pytest.mark.parametrize("active", [ACTIVE, [3, 3, 3, 3], [2, 1, 0, 0]])
def test_compiled_steps_equal_a_plain_loop_in_double(
    name: str, config: LSTMConfig, active: list[int], monkeypatch: pytest.MonkeyPatch
):
    """Off by float32's rounding, at worst by 6e-6 of a tensor's largest, as PyTorch's steps are."""
    exact, (x, state) = filled(config), inputs(config)
    double = [x, state.h, state.c, *exact.parameters()]
    expected = everything(lambda: plain_loop(exact, x, state, active), double)
    stack = filled(config).float()
    leaves = [t.detach().float() for t in double[:3]]
    for steps in (NATIVE[name], None):
        use(steps, monkeypatch)
        found = everything(
            lambda: stack.run(leaves[0], LSTMState(*leaves[1:]), active),
            [*leaves, *stack.parameters()],
        )
        for a, b in zip(found, expected, strict=True):
            assert (a - b).abs().max() < 2e-5 * (1 + b.abs().max())


@native
def test_threads_and_company_change_no_bit_of_a_step(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lstm_steps, "_CELLS_A_THREAD", 1)
    generator = torch.Generator().manual_seed(1)
    sums, before = (torch.randn(2, 9, n, generator=generator) for n in (4 * 37, 37))
    d_hidden, bias = before.flip(1), torch.linspace(-1, 1, 2 * 4 * 37).view(2, -1)

    def both_ways(threads: int, n: int) -> list[Tensor]:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        step = Step(sums[:, :n].clone(), before[:, :n], *torch.empty(2, 2, n, 37), 0.5)
        dc, d_gates = before[:, :n].clone(), torch.empty_like(step.gates)
        NATIVE[name].forward(step, bias)
        NATIVE[name].backward(step, d_hidden[:, :n], dc, d_gates)
        return [step.gates, step.cell, step.hidden, dc, d_gates]

    alone = both_ways(1, 9)
    for threads, n in ((2, 9), (5, 9), (64, 9), (1, 4), (3, 1), (2, 0)):
        for whole, part in zip(alone, both_ways(threads, n), strict=True):
            assert torch.equal(whole[:, :n], part)


@native
@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0])
def test_compiled_gates_are_exact_to_float32(name: str, scale: float):
    generator = torch.Generator().manual_seed(1)
    sums, before = (torch.randn(2, 2, n, generator=generator) for n in (4 * 1001, 1001))
    sums *= scale
    sums[0, 0, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    exact = Step(sums.double(), before.double(), *torch.empty(2, 2, 2, 1001).double(), 3.0)
    TorchSteps().forward(exact, torch.empty(0))
    found = Step(sums.clone(), before, *torch.empty(2, 2, 2, 1001), 3.0)
    NATIVE[name].forward(found, torch.zeros(2, 4 * 1001))
    for part in ("gates", "cell", "hidden"):
        a, b = getattr(found, part).double(), getattr(exact, part)
        torch.testing.assert_close(a, b, rtol=1e-6, atol=5e-7, equal_nan=True)
    candidates = found.gates.chunk(4, -1)[2].double(), exact.gates.chunk(4, -1)[2]
    torch.testing.assert_close(*candidates, rtol=3e-7, atol=0)  # near zero too


def test_double_and_rounded_weights_take_pytorchs_steps():
    single = torch.zeros(2)  # directions
    assert isinstance(lstm_autograd._steps_for(single[:1]), TorchSteps)  # the kernel has two
    assert isinstance(lstm_autograd._steps_for(single, single.double()), TorchSteps)
    assert isinstance(lstm_autograd._steps_for(single, single.bfloat16()), TorchSteps)
    assert isinstance(
        lstm_autograd._steps_for(single), NativeSteps if find_native() else TorchSteps
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("config", WIDE)
def test_without_gradients_the_numbers_are_the_same(
    config: LSTMConfig, compiled: bool, monkeypatch: pytest.MonkeyPatch
):
    use(find_native() if compiled else None, monkeypatch)
    stack, (x, state) = filled(config).float(), inputs(config)
    x, state = x.float(), LSTMState(state.h.float(), state.c.float())
    outputs, end = stack.run(x, state, ACTIVE)
    with torch.no_grad():
        again, last = stack.run(x, state, ACTIVE)
    for a, b in zip([*outputs, end.h, end.c], [*again, last.h, last.c], strict=True):
        assert torch.equal(a, b)
