"""Highway layers: the equations written out, gradients by autograd, directions, dropout, start."""

import pytest
import torch
from torch import Tensor

from elmore.kernel_files import find_library
from elmore.nn.highway_lstm import AlternatingLSTM, HighwayLSTM, Packing, _Recurrence

EXACT = {"rtol": 0, "atol": 1e-12}  # both in float64
CLOSE = {"rtol": 1e-5, "atol": 2e-6}  # the kernel computes in float32


def plainly(projected: Tensor, recurrent: Tensor, keep: Tensor) -> Tensor:
    """The equations in the file's first lines, one word after another: (T, B, 6H) -> (T, B, H)."""
    n = recurrent.shape[1]
    h = c = projected.new_zeros(projected.shape[1], n)
    states = []
    for x in projected:
        a = x[:, : 5 * n] + h @ recurrent.T
        i, f, o, r = torch.sigmoid(a[:, : 4 * n]).chunk(4, dim=1)
        c = f * c + i * torch.tanh(a[:, 4 * n :])
        h = keep * (r * o * torch.tanh(c) + (1 - r) * x[:, 5 * n :])
        states.append(h)
    return torch.stack(states)


def packed(projected: Tensor, recurrent: Tensor, keep: Tensor) -> Tensor:
    sizes = [projected.shape[1]] * len(projected)
    states = _Recurrence.apply(projected.flatten(0, 1), recurrent, keep, sizes)
    return states.unflatten(0, projected.shape[:2])


@pytest.mark.parametrize(("n_words", "n_rows"), [(5, 3), (1, 3), (5, 1), (1, 1)])
def test_states_and_gradients_are_those_of_the_equations(n_words: int, n_rows: int):
    torch.manual_seed(1)
    projected = torch.randn(n_words, n_rows, 24, dtype=torch.float64, requires_grad=True)
    before = projected.detach().clone()
    recurrent = torch.randn(20, 4, dtype=torch.float64, requires_grad=True)
    keep = (torch.rand(n_rows, 4) > 0.3).double() * 1.4
    weights = torch.randn(n_words, n_rows, 4, dtype=torch.float64)
    found = []
    for run in (plainly, packed):
        states = run(projected, recurrent, keep)
        grads = torch.autograd.grad(
            (states * weights).sum(), (projected, recurrent), materialize_grads=True
        )
        found.append((states, *grads))
    for want, have in zip(*found, strict=True):
        torch.testing.assert_close(have, want, **EXACT)
    assert torch.equal(projected, before)  # the input is not written over


def test_gradients_of_sentences_of_different_lengths_are_those_of_each_alone():
    torch.manual_seed(5)
    net = AlternatingLSTM(3, 4, 3).double()
    lengths = (2, 5, 1, 5, 3)
    x = torch.randn(5, 5, 3, dtype=torch.float64)
    weights = torch.randn(5, 5, 4, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    parameters = list(net.parameters())
    both = torch.autograd.grad((net(x, mask) * weights).sum(), parameters)
    alone = (net(x[n : n + 1, :m], mask[n : n + 1, :m]) for n, m in enumerate(lengths))
    loss = sum(
        (y[0] * weights[n, :m]).sum() for n, (y, m) in enumerate(zip(alone, lengths, strict=True))
    )
    for have, want in zip(both, torch.autograd.grad(loss, parameters), strict=True):
        torch.testing.assert_close(have, want, **EXACT)


@pytest.mark.parametrize("hidden", [4, 13, 40])
def test_the_kernel_computes_what_pytorch_does(hidden: int):
    """Also where the units are no multiple of a vector's width."""
    if find_library() is None:
        pytest.skip("no compiled kernel here")
    torch.manual_seed(6)
    sizes = [5, 3, 3, 1]
    projected = torch.randn(12, 6 * hidden, requires_grad=True)
    recurrent = (torch.randn(5 * hidden, hidden) / hidden**0.5).requires_grad_()
    keep = (torch.rand(5, hidden) > 0.3).float() * 1.4
    weights = torch.randn(12, hidden)
    found = []
    for dtype in (torch.float32, torch.float64):  # float64 is computed by PyTorch
        inputs = [t.to(dtype) for t in (projected, recurrent, keep)]
        states = _Recurrence.apply(*inputs, sizes)
        grads = torch.autograd.grad((states * weights.to(dtype)).sum(), (projected, recurrent))
        found.append([t.float() for t in (states, *grads)])
    for have, want in zip(*found, strict=True):
        torch.testing.assert_close(have, want, **CLOSE)


def test_packed_words_come_back_to_their_places():
    mask = torch.tensor([[True, False, False], [True, True, True], [True, True, False]])
    packing = Packing(mask)
    assert packing.sizes == [3, 2, 1]
    x = torch.arange(9.0).view(3, 3, 1)
    packed_words = packing.pack(x)
    assert packed_words.flatten().tolist() == [3, 6, 0, 4, 7, 5]
    assert packed_words[packing.turned].flatten().tolist() == [5, 7, 0, 4, 6, 3]
    assert torch.equal(packing.unpack(packed_words), x * mask.unsqueeze(-1))


def test_one_word_has_a_gradient_too():
    layer = HighwayLSTM(3, 2)
    layer(layer.project(torch.randn(4, 3)), [4]).sum().backward()
    assert layer.weight.grad is not None
    assert layer.recurrent.grad is not None
    assert not layer.recurrent.grad.any()  # there is no state before the first word


def test_every_block_starts_orthonormal_and_forget_gates_open():
    layer = HighwayLSTM(9, 4)
    for block in (*layer.weight.split(4), *layer.recurrent.split(4)):
        torch.testing.assert_close(block @ block.T, torch.eye(4), rtol=0, atol=1e-5)
    assert layer.bias.tolist() == [0] * 4 + [1] * 4 + [0] * 16


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_layers_read_in_alternating_directions(n_layers: int):
    torch.manual_seed(2)
    net = AlternatingLSTM(3, 4, n_layers).double()
    x = torch.randn(1, 6, 3, dtype=torch.float64)
    y = x
    for n, layer in enumerate(net.layers):
        turned = y.flip(1) if n % 2 else y
        keep = torch.ones(1, 4, dtype=torch.float64)
        states = plainly(layer.project(turned).transpose(0, 1), layer.recurrent, keep)
        y = states.transpose(0, 1)
        y = y.flip(1) if n % 2 else y
    torch.testing.assert_close(net(x, torch.ones(1, 6, dtype=torch.bool)), y, **EXACT)


def test_a_sentence_alone_and_in_a_batch_is_the_same():
    torch.manual_seed(3)
    net = AlternatingLSTM(3, 4, 3).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    both = net(x, mask)
    torch.testing.assert_close(net(x[1:, :3], mask[1:, :3]), both[1:, :3], **EXACT)
    assert not both[1, 3:].any()
    assert net(x[:, :0], mask[:, :0]).shape == (2, 0, 4)
    assert net(x[:0], mask[:0]).shape == (0, 5, 4)


def test_what_is_dropped_is_dropped_for_the_whole_sentence():
    torch.manual_seed(4)
    layer = HighwayLSTM(3, 64, dropout=0.5)
    states = layer(layer.project(torch.randn(14, 3)), [2] * 7).unflatten(0, (7, 2)).transpose(0, 1)
    dropped = states == 0  # (B, T, H)
    assert (dropped.all(dim=1) == dropped.any(dim=1)).all()
    assert 10 < dropped[0, 0].sum() < 54
    assert (dropped[0, 0] != dropped[1, 0]).any()
    assert (layer.eval()(layer.project(torch.randn(14, 3)), [2] * 7) != 0).all()
