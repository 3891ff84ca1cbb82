"""A causal model against torch's own LSTM and against what causality demands."""

import numpy as np
import pytest
import torch
from torch import nn

from elmore.models.causal import CausalLM
from elmore.nn.causal_context import CausalLSTM
from elmore.nn.lstm import LSTMConfig
from tests.tiny_causal import LSTM, PLAIN, TRANSFORMER, tiny_causal, tiny_lm


def rows(model: CausalLM, *lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    n_pieces = model.causal.config.n_pieces
    return torch.randint(2, n_pieces, (len(lengths), max(lengths))), torch.tensor(lengths)


def as_torch(ours: CausalLSTM) -> nn.LSTM:
    """torch's LSTM with the same weights; ours adds 1 to the forget gate's bias."""
    config = ours.config
    projected = config.dim if config.project else 0
    theirs = nn.LSTM(
        config.dim, config.cell_dim, config.n_layers, batch_first=True, proj_size=projected
    )
    with torch.no_grad():
        for i, layer in enumerate(ours.layers):
            getattr(theirs, f"weight_ih_l{i}").copy_(layer.w_input[0])
            getattr(theirs, f"weight_hh_l{i}").copy_(layer.w_state[0])
            getattr(theirs, f"bias_ih_l{i}").copy_(layer.opened_bias()[0])
            getattr(theirs, f"bias_hh_l{i}").zero_()
            if projected:
                getattr(theirs, f"weight_hr_l{i}").copy_(layer.w_project[0])
    return theirs


@pytest.mark.parametrize("cell_dim", [8, 12], ids=["plain", "projected"])
def test_the_lstm_is_torchs(cell_dim: int):
    torch.manual_seed(0)
    config = LSTMConfig(
        dim=8, cell_dim=cell_dim, n_layers=3, cell_clip=None, proj_clip=None, skip=False
    )
    ours = CausalLSTM(config)
    x, lengths = torch.randn(3, 6, 8), torch.tensor([4, 6, 1])
    outputs, state = ours(x, lengths)
    theirs, (h, c) = as_torch(ours)(
        nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    )
    padded, _ = nn.utils.rnn.pad_packed_sequence(theirs, batch_first=True)
    torch.testing.assert_close(outputs[-1], padded, rtol=0, atol=1e-6)
    torch.testing.assert_close(state.h[:, 0], h, rtol=0, atol=1e-6)
    torch.testing.assert_close(state.c[:, 0], c, rtol=0, atol=1e-6)


def test_gradients_are_torchs():
    torch.manual_seed(0)
    ours = CausalLSTM(LSTMConfig(dim=4, cell_dim=4, n_layers=1, cell_clip=None, skip=False))
    theirs, x, weight = as_torch(ours), torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    (ours(x)[0][-1] * weight).sum().backward()
    (theirs(x)[0] * weight).sum().backward()
    layer = ours.layers[0]
    torch.testing.assert_close(layer.w_input.grad[0], theirs.weight_ih_l0.grad, rtol=0, atol=1e-5)
    torch.testing.assert_close(layer.w_state.grad[0], theirs.weight_hh_l0.grad, rtol=0, atol=1e-5)
    torch.testing.assert_close(layer.bias.grad[0], theirs.bias_ih_l0.grad, rtol=0, atol=1e-5)


@pytest.mark.parametrize("context", [LSTM, TRANSFORMER], ids=["LSTM", "Transformer"])
def test_the_future_changes_nothing(context: LSTMConfig):
    model, _ = tiny_lm(context)
    ids, lengths = rows(model, 7, 7)
    before, _ = model.causal.run(ids, lengths)
    other = ids.clone()
    other[:, 4] = 1
    after, _ = model.causal.run(other, lengths)
    for one, two in zip(before, after, strict=True):
        torch.testing.assert_close(one[:, :4], two[:, :4], rtol=0, atol=1e-6)
        assert (one[:, 4] != two[:, 4]).any()


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_is_cross_entropy(tied: bool):
    model, _ = tiny_lm(PLAIN, tied=tied)
    ids, lengths = rows(model, 6, 3)
    loss, count = model.loss(ids, lengths)
    top = model.causal.run(ids)[0][-1]
    logits = top @ model.softmax.weight.T + model.softmax.bias.squeeze(1)
    expected = nn.functional.cross_entropy(logits[0, :5], ids[0, 1:], reduction="sum")
    expected += nn.functional.cross_entropy(logits[1, :2], ids[1, 1:3], reduction="sum")
    assert count == 7
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(-model.log_probs(ids, lengths).sum(), loss, rtol=1e-5, atol=1e-5)
    assert (model.softmax.weight is model.causal.pieces.weight) == tied


def test_step_by_step_is_all_at_once():
    model, _ = tiny_lm(LSTM)
    ids, lengths = rows(model, 5, 5)
    whole, end = model.causal.run(ids, lengths)
    state = None
    for t in range(5):
        step, state = model.causal.run(ids[:, t : t + 1], None, state)
        torch.testing.assert_close(step[-1][:, 0], whole[-1][:, t], rtol=0, atol=1e-6)
    assert state is not None
    assert end is not None
    torch.testing.assert_close(state.h, end.h, rtol=0, atol=1e-6)


def test_a_word_is_its_last_piece():
    checkpoint = tiny_causal(LSTM)
    reader = checkpoint.need_reader()
    batch = reader.read([["grassy", "unheard-of"]])
    states = checkpoint.model(batch)
    layers, _ = checkpoint.model.run(torch.from_numpy(batch.ids))
    ends = np.cumsum([len(p) for p in reader.subwords.pieces(["grassy", "unheard-of"])])
    torch.testing.assert_close(states.layers[1:, 0], torch.stack(layers[1:])[:, 0, ends])
    first = layers[0][0, 1 : ends[0] + 1].mean(0)
    torch.testing.assert_close(states.layers[0, 0, 0], first)
