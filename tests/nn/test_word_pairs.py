"""Static vectors learn by the equations in the file's docstring: the kernel and NumPy agree, and
one pair moves the tables by the gradient that autograd finds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from elmore.kernel_files import find_library
from elmore.nn.word_pairs import (
    COUNTED,
    GloveTables,
    SkipGramTables,
    native_glove,
    native_skip_grams,
    numpy_glove,
    numpy_skip_grams,
)

N, DIM, RATE = 30, 21, 0.05
SKIP_GRAMS = [numpy_skip_grams, *([native_skip_grams] if find_library() else [])]
GLOVE = [numpy_glove, *([native_glove] if find_library() else [])]


def skip_gram_tables() -> SkipGramTables:
    generator = torch.Generator().manual_seed(0)
    return SkipGramTables(*(torch.randn(N, DIM, generator=generator) / 3 for _ in range(2)))


def glove_tables() -> GloveTables:
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(N, DIM + 1, generator=generator) / 3 for _ in range(2)]
    return GloveTables(*tables, *(torch.ones(N, DIM + 1) for _ in range(2)))


def some_pairs(n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.integers(0, N, n, np.int32), rng.integers(0, N, (n, 1 + k), np.int32)


def some_counts(n: int) -> Any:
    rng = np.random.default_rng(1)
    pairs = np.zeros(n, COUNTED)
    pairs["first"], pairs["second"] = rng.integers(0, N, (2, n))
    pairs["count"] = rng.uniform(0.2, 300, n)
    return pairs


@pytest.mark.parametrize("learn", SKIP_GRAMS)
@pytest.mark.parametrize("predicted", [[3, 4, 5, 6], [3, 4, 4, 3], [3]])
def test_a_pair_moves_the_tables_by_its_gradient(learn: Callable[..., float], predicted: list[int]):
    """A word drawn twice counts twice; the word that was met does not count as drawn."""
    tables = skip_gram_tables()
    words, contexts = (t.clone().double().requires_grad_() for t in (tables.words, tables.contexts))
    drawn = [word for word in predicted[1:] if word != predicted[0]]
    loss = -logsigmoid(words[7] @ contexts[predicted[0]])
    loss = loss - logsigmoid(-(contexts[drawn] @ words[7])).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    found = learn(tables, np.array([7], np.int32), np.array([predicted], np.int32), RATE)
    assert found == pytest.approx(loss.item(), abs=1e-5)
    for new, old in ((tables.words, words), (tables.contexts, contexts)):
        assert old.grad is not None
        torch.testing.assert_close(
            new.double(), (old - RATE * old.grad).detach(), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("learn", GLOVE)
@pytest.mark.parametrize(("count", "second"), [(3.0, 5), (250.0, 5), (3.0, 7)])
def test_a_count_moves_the_tables_by_its_gradient(
    learn: Callable[..., float], count: float, second: int
):
    """The first step of AdaGrad divides by one, the second order starts from its result."""
    tables = glove_tables()
    words, contexts = (t.clone().double() for t in (tables.words, tables.contexts))
    sums = [torch.ones_like(words), torch.ones_like(words)]
    total = 0.0
    for i, j in dict.fromkeys([(7, second), (second, 7)]):
        w, c = words.clone().requires_grad_(), contexts.clone().requires_grad_()
        error = w[i, :-1] @ c[j, :-1] + w[i, -1] + c[j, -1] - np.log(count)
        loss = 0.5 * min(1.0, count / 100) ** 0.75 * error**2
        loss.backward()
        total += loss.item()
        for table, grad, sum_ in zip((words, contexts), (w.grad, c.grad), sums, strict=True):
            assert grad is not None
            step = RATE * grad
            table -= step / sum_.sqrt()
            sum_ += step**2
    pair = np.array([(7, second, count)], COUNTED)
    assert learn(tables, pair, RATE, 100.0, 0.75) == pytest.approx(total, abs=1e-5)
    torch.testing.assert_close(tables.words.double(), words, rtol=0, atol=1e-6)
    torch.testing.assert_close(tables.contexts.double(), contexts, rtol=0, atol=1e-6)
    torch.testing.assert_close(tables.words_sum.double(), sums[0], rtol=0, atol=1e-6)


@pytest.mark.skipif(find_library() is None, reason="no kernel was built")
def test_kernel_and_numpy_learn_the_same_from_many_pairs():
    one, other = skip_gram_tables(), skip_gram_tables()
    pairs = some_pairs(500, 5)
    losses = numpy_skip_grams(one, *pairs, RATE), native_skip_grams(other, *pairs, RATE)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(one.words, other.words, rtol=0, atol=1e-5)
    torch.testing.assert_close(one.contexts, other.contexts, rtol=0, atol=1e-5)


@pytest.mark.skipif(find_library() is None, reason="no kernel was built")
def test_kernel_and_numpy_learn_the_same_from_many_counts():
    one, other = glove_tables(), glove_tables()
    pairs = some_counts(400)
    found = [
        learn(t, pairs, RATE, 100.0, 0.75) for learn, t in zip(GLOVE, (one, other), strict=True)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    for name in GloveTables.__slots__:
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-4)


@pytest.mark.parametrize("learn", SKIP_GRAMS)
def test_impossible_scores_leave_finite_numbers(learn: Callable[..., float]):
    tables = SkipGramTables(torch.full((2, 4), 40.0), torch.full((2, 4), 40.0))
    loss = learn(tables, np.array([0], np.int32), np.array([[0, 1, 1]], np.int32), RATE)
    assert loss == pytest.approx(2 * np.log(1e10), rel=1e-5)
    assert tables.words.isfinite().all()
