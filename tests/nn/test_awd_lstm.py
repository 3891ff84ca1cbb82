"""AWD-LSTM beside plain code: the same masks give the same outputs and gradients; without dropout
it is the LSTM of PyTorch.
"""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from elmore.models.causal import Causal, CausalConfig, CausalLM, StatePenalty
from elmore.nn.awd_lstm import AWDLSTM, AWDConfig
from elmore.nn.dropout import Dropout, SharedDropout
from elmore.nn.lstm import LSTMLayer

SMALL = AWDConfig(
    dim=4, hidden_dim=6, n_layers=3, input_dropout=0.3, embed_dropout=0.25, weight_dropout=0.5,
    hidden_dropout=0.4,
)  # fmt: skip
IDS = torch.tensor([[1, 2, 3, 2, 5], [4, 4, 0, 6, 1]])


def model(config: AWDConfig = SMALL) -> Causal:
    torch.manual_seed(3)
    found = Causal(CausalConfig(n_pieces=7, context=config)).double()
    for parameter in found.parameters():
        nn.init.normal_(parameter, std=0.5)
    return found


def lstm(layer: LSTMLayer, x: Tensor, kept: Tensor) -> Tensor:
    """One layer, step by step: x (B, T, D) -> (B, T, H)."""
    n = layer.config.cell_dim
    h = c = x.new_zeros(x.shape[0], n)
    outputs = []
    for step in x.unbind(1):
        z = step @ layer.w_input[0].T + h @ (layer.w_state[0] * kept).T + layer.bias[0]
        i, f, g, o = z.split(n, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs, 1)


def masks(shapes: list[tuple[int, ...]], rates: list[float]) -> Iterator[Tensor]:
    """As they are drawn: 0, or larger by what is left."""
    for shape, rate in zip(shapes, rates, strict=True):
        yield Dropout(rate).train()(torch.ones(shape, dtype=torch.float64))


def test_the_same_masks_give_the_same_outputs_and_gradients():
    causal = model().train()
    torch.manual_seed(5)
    outputs, _ = causal.run(IDS)
    outputs[-1].square().sum().backward()
    found = {name: p.grad.clone() for name, p in causal.named_parameters() if p.grad is not None}

    causal.zero_grad()
    torch.manual_seed(5)
    b = len(IDS)
    shapes = [(7,), (1, b, 4), (1, 24, 6), (1, b, 6), (1, 24, 6), (1, b, 6), (1, 16, 4)]
    row, x, w1, h1, w2, h2, w3 = masks(shapes, [0.25, 0.3, 0.5, 0.4, 0.5, 0.4, 0.5])
    y = (causal.pieces.weight * row.unsqueeze(1))[IDS]
    for layer, over_time, kept in zip(
        causal.context.layers, (x, h1, h2), (w1, w2, w3), strict=True
    ):
        y = lstm(layer, y * over_time[0].unsqueeze(1), kept[0])
    torch.testing.assert_close(outputs[-1], y, rtol=0, atol=1e-12)
    y.square().sum().backward()
    assert found.keys() == {name for name, _ in causal.named_parameters()}
    for name, parameter in causal.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=0, atol=1e-12)


def test_in_use_it_is_pytorchs_lstm_and_its_state_goes_on():
    causal = model().eval()
    y, ends = causal.pieces(IDS), []
    for layer in causal.context.layers:
        theirs = nn.LSTM(y.shape[-1], layer.config.dim, batch_first=True).double()
        weights = (layer.w_input[0], layer.w_state[0], layer.bias[0], 0 * layer.bias[0])
        theirs.load_state_dict(dict(zip(theirs.state_dict(), weights, strict=True)))
        y, (h, c) = theirs(y)
        ends.append((h[0], c[0]))
    (*_, whole), end = causal.run(IDS)
    torch.testing.assert_close(whole, y, rtol=0, atol=1e-12)
    assert end is not None
    for i, (h, c) in enumerate(ends):
        width = h.shape[-1]
        torch.testing.assert_close(end.h[i, 0, :, :width], h, rtol=0, atol=1e-12)
        torch.testing.assert_close(end.c[i, 0, :, :width], c, rtol=0, atol=1e-12)
    _, half = causal.run(IDS[:, :2])
    (*_, rest), _ = causal.run(IDS[:, 2:], state=half)
    torch.testing.assert_close(rest, whole[:, 2:], rtol=0, atol=1e-12)


def test_a_row_that_has_ended_changes_nothing():
    causal = model().eval()
    (*_, together), end = causal.run(IDS, torch.tensor([3, 5]))
    (*_, alone), state = causal.run(IDS[:1, :3])
    torch.testing.assert_close(together[:1, :3], alone, rtol=0, atol=1e-12)
    assert end is not None
    assert state is not None
    torch.testing.assert_close(end.h[:, :, :1], state.h, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dim", "shape"), [(1, (3, 1, 5)), (-1, (3, 4, 1))])
def test_one_decision_along_a_dimension(dim: int, shape: tuple[int, ...]):
    torch.manual_seed(0)
    dropout, x = SharedDropout(0.5, dim).train(), torch.rand(3, 4, 5) + 1
    torch.manual_seed(1)
    scale = dropout.scale(x)
    torch.manual_seed(1)
    assert scale is not None
    assert scale.shape == shape
    assert set(scale.flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(dropout(x), x * scale)
    assert dropout.eval()(x) is x


def test_the_published_sizes():
    """20.2 million in the LSTMs: 4·1150·(400 + 1150) and so on, one bias per gate."""
    with torch.device("meta"):
        context = AWDLSTM(AWDConfig())
    wanted = 4 * 1150 * (400 + 1150 + 1) + 4 * 1150 * (2 * 1150 + 1) + 4 * 400 * (1150 + 400 + 1)
    assert sum(p.numel() for p in context.parameters()) == wanted


def test_penalties_on_large_and_on_sudden_states():
    lm = CausalLM(model(), penalty=StatePenalty(large=2.0, sudden=1.0)).double().train()
    for module in lm.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    lengths = torch.tensor([5, 4])
    loss, n, penalty = lm.penalized(IDS, lengths)
    (*_, top), _ = lm.causal.run(IDS[:, :-1])
    seen = torch.cat([top[0], top[1, :3]])
    changes = torch.cat([top[0].diff(dim=0), top[1, :3].diff(dim=0)])
    expected = 7 * (2 * seen.square().mean() + changes.square().mean())
    torch.testing.assert_close(penalty, expected, rtol=0, atol=1e-12)
    assert (n, lm.loss(IDS, lengths)[0].item()) == (7, pytest.approx(loss.item()))
