"""Attention between two sequences against a NumPy derivation, one row and one word at a time."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from elmore.nn.attention import AttentionFlow, align, masked_max, masked_mean, masked_softmax

Array = npt.NDArray[np.float64]

MASK_A = torch.tensor([[True, True, True, True], [True, True, False, False], [True, *[False] * 3]])
MASK_B = torch.tensor([[True, False, False], [True, True, True], [True, True, False]])


def wave(*shape: int, speed: float = 1.7) -> Tensor:
    n = int(np.prod(shape))
    return (torch.sin(torch.arange(n, dtype=torch.float64) * speed) * 2).view(*shape)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    result: Array = e / e.sum()
    return result


def rows(a: Tensor, b: Tensor) -> list[tuple[Array, Array]]:
    """Each row of a batch, its padding cut off."""
    pairs = zip(a, MASK_A, b, MASK_B, strict=True)
    return [(x[m].numpy(), y[n].numpy()) for x, m, y, n in pairs]


def test_alignment_is_the_weighted_mean_of_the_other_sentence():
    a, b = wave(3, 4, 5), wave(3, 3, 5, speed=0.9)
    from_b, from_a = align(a, MASK_A, b, MASK_B)
    for row, (x, y) in enumerate(rows(a, b)):
        for i, word in enumerate(x):
            expected = softmax(np.array([word @ other for other in y])) @ y
            np.testing.assert_allclose(from_b[row, i], expected, rtol=0, atol=1e-12)
        for j, word in enumerate(y):
            expected = softmax(np.array([word @ other for other in x])) @ x
            np.testing.assert_allclose(from_a[row, j], expected, rtol=0, atol=1e-12)


def test_attention_flow_is_as_bidaf_defines_it():
    text, asked = wave(3, 4, 5), wave(3, 3, 5, speed=0.9)
    flow = AttentionFlow(5).double()
    with torch.no_grad():
        for i, parameter in enumerate(flow.parameters()):
            parameter.copy_(wave(parameter.numel(), speed=0.3 + i).view_as(parameter))
    out = flow(text, MASK_A, asked, MASK_B).detach()
    assert out.shape == (3, 4, AttentionFlow.out_dim(5))
    w_text, w_asked = flow.text.weight[0].detach().numpy(), flow.asked.weight[0].detach().numpy()
    w_both, bias = flow.both.detach().numpy(), flow.text.bias.item()
    for row, (x, y) in enumerate(rows(text, asked)):
        s = np.array([[w_text @ p + w_asked @ q + w_both @ (p * q) + bias for q in y] for p in x])
        to_text = softmax(s.max(axis=1)) @ x
        for i, word in enumerate(x):
            told = softmax(s[i]) @ y
            expected = np.concatenate([word, told, word * told, word * to_text])
            np.testing.assert_allclose(out[row, i], expected, rtol=0, atol=1e-12)


def test_pooling_sees_words_only():
    x = wave(3, 4, 5)
    mean, highest = masked_mean(x, MASK_A), masked_max(x, MASK_A)
    for row, mask in enumerate(MASK_A):
        words = x[row][mask].numpy()
        np.testing.assert_allclose(mean[row], words.mean(axis=0), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(highest[row], words.max(axis=0))


def test_a_softmax_over_no_words_is_zero_and_over_some_sums_to_one():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    chances = masked_softmax(torch.tensor([[1.0, 1e4, 1.0], [3.0, 2.0, 1.0]]), mask)
    assert chances.tolist() == [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("empty", ["text", "asked", "both"])
def test_a_sequence_without_words_gives_numbers_and_finite_gradients(empty: str):
    a, b = wave(3, 4, 5).requires_grad_(), wave(3, 3, 5).requires_grad_()
    mask_a = torch.zeros_like(MASK_A) if empty in ("text", "both") else MASK_A
    mask_b = torch.zeros_like(MASK_B) if empty in ("asked", "both") else MASK_B
    parts = [
        *align(a, mask_a, b, mask_b),
        AttentionFlow(5).double()(a, mask_a, b, mask_b),
        masked_mean(a, mask_a),
        masked_max(a, mask_a),
    ]
    total = sum((part.square().sum() for part in parts), torch.zeros((), dtype=torch.float64))
    assert total.isfinite()
    for gradient in torch.autograd.grad(total, [a, b]):
        assert gradient.isfinite().all()
