"""The tasks' biLSTM: a sentence alone through torch's own LSTM is the reference."""

import torch

from elmore.nn.rnn import BiRNN, SentenceDropout

LENGTHS = (3, 5, 0, 1)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    mask = torch.tensor([[i < n for i in range(5)] for n in LENGTHS])
    return torch.randn(len(LENGTHS), 5, 7), mask  # what is beyond the end is not zero


def test_each_sentence_is_read_as_if_it_were_alone():
    x, mask = batch()
    rnn = BiRNN(7, 4).eval()
    y = rnn(x, mask)
    assert y.shape == (4, 5, 8)
    for row, n in enumerate(LENGTHS):
        if n:
            words = x[row : row + 1, :n]
            ahead, behind = rnn.ahead(words)[0], rnn.behind(words.flip(1))[0].flip(1)
            alone = torch.cat([ahead, behind], dim=-1)
            torch.testing.assert_close(y[row : row + 1, :n], alone, rtol=0, atol=1e-6)
        assert not y[row, n:].any()


def test_a_batch_of_empty_sentences_gives_zeros():
    assert not BiRNN(7, 4)(torch.zeros(2, 3, 7), torch.zeros(2, 3, dtype=torch.bool)).any()
    assert BiRNN(7, 4)(torch.zeros(2, 0, 7), torch.zeros(2, 0, dtype=torch.bool)).shape == (2, 0, 8)


def test_forget_gates_begin_open():
    rnn = BiRNN(7, 4)
    for lstm in (rnn.ahead, rnn.behind):
        bias = lstm.bias_ih_l0 + lstm.bias_hh_l0
        assert bias[4:8].tolist() == [1.0] * 4
        assert not bias[:4].any()


def test_dropout_drops_the_same_for_every_word_of_a_sentence():
    torch.manual_seed(0)
    dropout = SentenceDropout(0.5)
    x = torch.ones(50, 6, 40)
    y = dropout(x)
    assert (y == y[:, :1]).all()
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert abs(y.mean().item() - 1.0) < 0.1
    torch.testing.assert_close(dropout.eval()(x), x, rtol=0, atol=0)
