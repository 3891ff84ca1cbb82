"""Blocks decode to what they encode, as nearly as their precision promises."""

import numpy as np
import pytest

from elmore.errors import InputError
from elmore.store.precision import PRECISIONS, Codec, Precision, as_tensor

SHAPES = [(3, 5, 16), (1, 1, 7), (2, 4, 3), (3, 0, 8)]


def there_and_back(codec: Codec, vectors: np.ndarray) -> np.ndarray:
    block = codec.encode(vectors)
    assert len(block) == codec.n_bytes(vectors.shape[1])
    assert len(block) % 4 == 0
    return codec.decode(as_tensor(block), vectors.shape[1]).numpy()


def normal(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_exact(shape: tuple[int, int, int]):
    vectors = normal(shape)
    np.testing.assert_array_equal(
        there_and_back(Codec("float32", shape[0], shape[2]), vectors), vectors
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_float16_is_numpys_float16(shape: tuple[int, int, int]):
    vectors = normal(shape)
    got = there_and_back(Codec("float16", shape[0], shape[2]), vectors)
    np.testing.assert_array_equal(got, vectors.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_within_half_a_step_of_each_words_own_scale(shape: tuple[int, int, int]):
    vectors = normal(shape)
    if shape[1] > 1:
        vectors[:, 1] *= 1e-4  # a quiet word beside loud ones
        vectors[:, 0] = 0
    got = there_and_back(Codec("int8", shape[0], shape[2]), vectors)
    step = np.abs(vectors).max(axis=-1, keepdims=True) / 127
    assert (np.abs(got - vectors) <= step * 0.5001).all()


def test_int8_takes_a_byte_a_number_and_four_a_scale():
    assert Codec("int8", 3, 1024).word_bytes == 3 * (1024 + 4)
    assert Codec("float16", 3, 1024).word_bytes == 3 * 1024 * 2


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_lies_there_is_given_without_a_copy(precision: Precision):
    vectors, codec = normal((2, 3, 8)), Codec(precision, 2, 8)
    data = b"4321" + codec.encode(vectors)
    block = as_tensor(data)[4:]
    stored = codec.stored(data, 4, 3)
    assert np.shares_memory(stored.values, block.numpy())
    assert not stored.values.flags.writeable
    scales = 1 if stored.scales is None else stored.scales
    np.testing.assert_array_equal(stored.values.astype(np.float32) * scales, codec.decode(block, 3))


@pytest.mark.parametrize(
    ("precision", "number"), [("float16", 1e6), ("float16", np.nan), ("int8", np.inf)]
)
def test_a_number_that_does_not_fit_is_refused(precision: Precision, number: float):
    with pytest.raises(InputError, match=f"{precision} cannot .* store it as float32"):
        Codec(precision, 1, 2).encode(np.array([[[0, number]]], np.float32))
