"""The loss of pairs, against plain NumPy in double precision, and its gradients."""

import numpy as np
import pytest
import torch

from elmore.nn.nearby_words import NearbyWords

M, P, S, V, D = 5, 9, 7, 11, 4  # vectors, pairs, samples, words, dim
PLACES = np.array([0, 0, 1, 2, 2, 2, 4, 4, 4])  # vector 3 has no pair
WORDS = np.array([3, 5, 5, 0, 10, 3, 1, 1, 7])
SAMPLES = np.array([2, 5, 5, 9, 0, 1, 6])
K = 3.0


def wave(*shape: int, speed: float) -> np.ndarray:
    return np.sin(np.arange(np.prod(shape)) * speed).reshape(shape) * 2


def expected(vectors: np.ndarray, outputs: np.ndarray) -> float:
    """One pair after another, each with all samples."""
    total = 0.0
    for place, word in zip(PLACES, WORDS, strict=True):
        total += np.log1p(np.exp(-vectors[place] @ outputs[word]))
        for sample in SAMPLES:
            total += K / S * np.log1p(np.exp(vectors[place] @ outputs[sample]))
    return total


def module_with(outputs: np.ndarray) -> NearbyWords:
    module = NearbyWords(V, D, K).double()
    with torch.no_grad():
        module.outputs.copy_(torch.from_numpy(outputs))
    return module


def run(module: NearbyWords, vectors: torch.Tensor) -> torch.Tensor:
    return module(vectors, *(torch.from_numpy(index) for index in (PLACES, WORDS, SAMPLES)))


def test_the_loss_is_that_of_plain_numpy():
    vectors, outputs = wave(M, D, speed=0.7), wave(V, D, speed=1.3)
    found = run(module_with(outputs), torch.from_numpy(vectors))
    assert found.item() == pytest.approx(expected(vectors, outputs), rel=1e-12)


def test_gradients_are_those_of_finite_differences():
    vectors, outputs = wave(M, D, speed=0.7), wave(V, D, speed=1.3)
    module = module_with(outputs)
    inputs = torch.from_numpy(vectors.copy()).requires_grad_()
    run(module, inputs).backward()
    assert inputs.grad is not None
    assert module.outputs.grad is not None
    assert module.outputs.grad.is_sparse  # rows that no pair touches cost nothing
    eps = 1e-6
    for array, grad in ((vectors, inputs.grad), (outputs, module.outputs.grad.to_dense())):
        slopes = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            before = array[i]
            array[i] = before + eps
            above = expected(vectors, outputs)
            array[i] = before - eps
            slopes[i] = (above - expected(vectors, outputs)) / (2 * eps)
            array[i] = before
        np.testing.assert_allclose(grad.numpy(), slopes, rtol=1e-6, atol=1e-7)


def test_output_vectors_start_at_zero():
    loss = run(NearbyWords(V, D, K), torch.ones(M, D))
    assert loss.item() == pytest.approx(P * (1 + K) * np.log(2), rel=1e-6)
