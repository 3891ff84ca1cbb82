"""Sequence to sequence: what is copied from the language models is theirs to the bit; attention and
copying against plain loops; steps against all at once.
"""

import pytest
import torch
from torch import Tensor

from elmore.models.seq2seq import Seq2Seq, Seq2SeqConfig
from elmore.nn.beam_search import SearchConfig, beam_search
from elmore.nn.lstm import LSTMState
from elmore.nn.source_attention import Memory, coverage_loss
from tests.tiny_causal import LSTM, PLAIN, TRANSFORMER, tiny_lm

SOURCE = torch.tensor([[5, 9, 7, 3], [8, 6, 0, 0]]), torch.tensor([4, 2])
TARGET = torch.tensor([[0, 9, 5, 1], [0, 6, 1, 0]]), torch.tensor([4, 3])


def tiny(*, started: bool = False, **settings: bool | int) -> Seq2Seq:
    """With all weights random, or with new ones as they are."""
    source, target = tiny_lm(PLAIN, seed=1)[0], tiny_lm(LSTM, seed=2)[0]
    config = Seq2SeqConfig(
        source=source.causal.config, target=target.causal.config, dropout=0.0, **settings
    )
    torch.manual_seed(3)
    model = Seq2Seq(config)
    if started:
        model.source.load_state_dict(source.state_dict())
        model.target.load_state_dict(target.state_dict())
    else:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return model.eval().requires_grad_(False)


def everything(model: Seq2Seq) -> tuple[Memory, Tensor, Tensor]:
    """The memory, the log-probabilities of every step of the targets, and the attention."""
    memory, upper = model.encode(*SOURCE)
    found = model.decode(TARGET[0][:, :-1], TARGET[1] - 1, memory, upper)
    return memory, model.log_probs(found, memory), found.attention


@pytest.mark.parametrize("n_below", [0, 1])
def test_a_new_model_is_its_language_model_to_the_bit(n_below: int):
    model, target = tiny(started=True, n_below=n_below), tiny_lm(LSTM, seed=2)[0]
    for name, tensor in target.state_dict().items():
        assert torch.equal(model.target.state_dict()[name], tensor)
    memory, upper = model.encode(*SOURCE)
    found = model.decode(TARGET[0][:, :-1], TARGET[1] - 1, memory, upper)
    layers, _ = target.causal.run(TARGET[0][:, :-1], TARGET[1] - 1)
    assert torch.equal(found.h, layers[-1])
    theirs = torch.log_softmax(
        layers[-1] @ target.softmax.weight.T + target.softmax.bias.squeeze(1), -1
    )
    torch.testing.assert_close(model.log_probs(found, memory), theirs, rtol=0, atol=1e-6)
    loss, (expected, count) = model.loss(SOURCE, TARGET), target.loss(*TARGET)
    assert loss.count == count
    assert torch.equal(loss.pieces, expected)


@pytest.mark.parametrize("n_below", [0, 2])
def test_attention_is_that_of_a_plain_loop(n_below: int):
    model = tiny(n_below=n_below)
    memory, upper = model.encode(*SOURCE)
    found = model.decode(TARGET[0][:, :-1], TARGET[1] - 1, memory, upper)
    first = model.target.causal.run(TARGET[0][:, :-1], TARGET[1] - 1)[0][-1]
    if model.below is not None:
        state = LSTMState(upper.h[:n_below], upper.c[:n_below])
        first = first + model.below(first, TARGET[1] - 1, state)[0][-1]
    source_first = model.source.causal.run(*SOURCE)[0][-1]
    top = model.encoder(source_first, SOURCE[1])[0][-1]
    for b, n in enumerate(SOURCE[1].tolist()):
        for t in range(int(TARGET[1][b]) - 1):
            scores = [
                first[b, t] @ (model.attention.key.weight @ top[b, i]) / 8**0.5 for i in range(n)
            ]
            weights = torch.softmax(torch.stack(scores), 0)
            torch.testing.assert_close(found.attention[b, t, :n], weights, rtol=0, atol=1e-5)
            assert not found.attention[b, t, n:].any()
            states = torch.cat([source_first[b, :n], top[b, :n]], dim=-1)
            seen = model.attention(first[b : b + 1, t : t + 1], memory.rows(torch.tensor([b])))[0]
            torch.testing.assert_close(seen[0, 0], weights @ states, rtol=0, atol=1e-5)


def test_copying_is_a_mixture():
    model = tiny(copy_source=True)
    memory, log_probs, attention = everything(model)
    memory, upper = model.encode(*SOURCE)
    found = model.decode(TARGET[0][:, :-1], TARGET[1] - 1, memory, upper)
    assert found.copying is not None
    p = torch.sigmoid(found.copying)
    own = torch.softmax(
        found.h @ model.target.softmax.weight.T + model.target.softmax.bias.squeeze(1), -1
    )
    for b in range(2):
        for t in range(2):
            expected = (1 - p[b, t]) * own[b, t]
            for i, piece in enumerate(SOURCE[0][b].tolist()):
                expected[piece] += p[b, t] * attention[b, t, i]
            torch.testing.assert_close(log_probs[b, t].exp(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 3), rtol=0, atol=1e-5)


@pytest.mark.parametrize("copy_source", [False, True])
def test_the_loss_is_that_of_the_probabilities(copy_source: bool):
    model = tiny(copy_source=copy_source)
    _, log_probs, _ = everything(model)
    expected = -(log_probs[0, range(3), TARGET[0][0, 1:]].sum())
    expected -= log_probs[1, range(2), TARGET[0][1, 1:3]].sum()
    found = model.loss(SOURCE, TARGET)
    assert found.count == 5
    torch.testing.assert_close(found.pieces, expected, rtol=1e-5, atol=1e-5)


def test_coverage_loss_by_hand():
    weights = torch.tensor([[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]])
    # step 2: min(0.9, 0.5) + min(0.1, 0.5); step 3: min(0.2, 1.4) + min(0.8, 0.6)
    assert float(coverage_loss(weights, torch.tensor([[True, True, True]]))) == pytest.approx(1.4)
    assert float(coverage_loss(weights, torch.tensor([[True, True, False]]))) == pytest.approx(0.6)


@pytest.mark.parametrize(
    "settings", [{}, {"both_directions": False, "n_upper": 2, "n_below": 2}], ids=str
)
def test_steps_are_all_at_once(settings: dict):
    model = tiny(**settings)
    memory, log_probs, attention = everything(model)
    _, upper = model.encode(*SOURCE)
    state = model.first_state(memory, upper, 2)
    for t in range(2):
        step = model.step(TARGET[0][:, t : t + 1].expand(-1, 2), state)
        for k in range(2):
            torch.testing.assert_close(step.log_probs[:, k], log_probs[:, t], rtol=0, atol=1e-5)
            torch.testing.assert_close(step.attention[:, k], attention[:, t], rtol=0, atol=1e-5)
        state = model.reorder(step.state, torch.tensor([[1, 0], [0, 1]]))
    last = model.keep(state, torch.tensor([1]))
    one = model.step(TARGET[0][1:2, 1:2].expand(-1, 2), last)
    assert one.log_probs.shape == (1, 2, log_probs.shape[-1])


def test_search_does_not_depend_on_batch_mates():
    model = tiny()
    config = SearchConfig(beam=4, max_length=12, max_ratio=None)
    memory, upper = model.encode(*SOURCE)
    found = beam_search(
        model, model.first_state(memory, upper, 4), [4, 2], config, begin=0, end=1, n_best=2
    )
    memory, upper = model.encode(SOURCE[0][1:, :2], SOURCE[1][1:])
    (alone,) = beam_search(
        model, model.first_state(memory, upper, 4), [2], config, begin=0, end=1, n_best=2
    )
    assert [h.ids for h in alone] == [h.ids for h in found[1]]
    assert [h.score for h in alone] == pytest.approx([h.score for h in found[1]], abs=1e-4)


def test_gradients_reach_everything():
    model = tiny(copy_source=True, vector_dim=3, n_below=1).requires_grad_(True)
    loss = model.loss(SOURCE, TARGET, torch.randn(2, 4, 3))
    lm = model.source.loss(*TARGET)[0]
    (loss.pieces + loss.coverage + lm).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_what_does_not_fit_is_said():
    lm = tiny_lm(PLAIN)[0].causal.config
    with pytest.raises(ValueError, match="a Transformer"):
        Seq2SeqConfig(source=tiny_lm(TRANSFORMER)[0].causal.config, target=lm)
    other = lm.model_copy(update={"n_pieces": 7})
    with pytest.raises(ValueError, match="one vocabulary"):
        Seq2SeqConfig(source=lm, target=other, copy_source=True)
