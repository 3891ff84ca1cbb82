"""Convolution and maximum in one against torch's two, numbers and gradients."""

import torch
from torch import Tensor, nn

from elmore.nn.char_cnn import CharCNN, CharCNNConfig, max_convolution, word_groups
from elmore.text.byte_reader import ByteReader

WORDS = ["a", "", "the", "bank", "x" * 9, "x" * 30, "straße", "<S>", "</S>", "qu'il", "Zürich"]
CONFIG = CharCNNConfig(
    char_dim=3, filters=((1, 4), (2, 5), (4, 6)), n_highway=1, dim=5, max_characters=12
)


def rows(words: list[str] = WORDS) -> Tensor:
    return torch.from_numpy(ByteReader(CONFIG.max_characters).spell(words))


def gradients(cnn: CharCNN, maxima: Tensor) -> list[Tensor]:
    cnn.zero_grad()
    torch.sin(3 * maxima).sum().backward()
    return [p.grad.clone() for p in cnn.parameters() if p.grad is not None]


def test_it_equals_convolving_every_window_and_taking_the_maximum():
    torch.manual_seed(2)
    cnn = CharCNN(CONFIG).double()
    mine, plain = cnn._maxima_cpu(rows()), cnn._maxima(rows())
    torch.testing.assert_close(mine, plain, rtol=0, atol=1e-12)
    for a, b in zip(gradients(cnn, mine), gradients(cnn, plain), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_many_words_in_several_groups_come_back_in_order():
    torch.manual_seed(2)
    cnn = CharCNN(CONFIG).double()
    many = rows([f"{'w' * (i * 7 % 11)}{i}" for i in range(700)])
    torch.testing.assert_close(cnn._maxima_cpu(many), cnn._maxima(many), rtol=0, atol=1e-12)


def test_gradients_equal_finite_differences():
    torch.manual_seed(3)
    order, groups = word_groups(rows())
    embed = torch.randn(262, 3, dtype=torch.float64)
    conv = nn.Conv1d(3, 4, 3).double()
    used = rows().unique()

    def run(some: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        table = embed.index_copy(0, used, some)
        return max_convolution(groups, table, weight, bias)[torch.argsort(order)]

    leaves = (embed[used].requires_grad_(True), conv.weight, conv.bias)
    assert torch.autograd.gradcheck(run, leaves, eps=1e-7, atol=1e-6)


def test_a_window_of_padding_alone_can_win():
    embed = torch.full((262, 1), -1.0)
    embed[261] = 1.0  # the padding character
    weight, bias = torch.ones(1, 1, 2), torch.zeros(1)
    _, groups = word_groups(rows(["ab"]))
    assert max_convolution(groups, embed, weight, bias).item() == 2.0
