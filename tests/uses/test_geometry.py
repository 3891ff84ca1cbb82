"""Length one, means, cosines, and both planes against an eigenvalue solution."""

import numpy as np
import pytest

from elmore.uses.geometry import centered, cosines, exact_plane, plane, unit


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_units_have_length_one_and_zeros_stay(kind: type):
    found = unit(np.array([[3, 4], [0, 0]], kind))
    assert found.dtype == kind
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], atol=1e-7)


@pytest.mark.parametrize(("kind", "least"), [(np.float32, -24), (np.float64, -149)])
def test_lengths_down_to_the_least_of_the_next_smaller_type_are_exact(kind: type, least: int):
    """Tasks compare half precision in float32, the demo compares float32 in float64."""
    for power in range(least, 0):
        vectors = np.ldexp(np.ones((1, 3), kind), power)
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        np.testing.assert_array_equal(unit(vectors), vectors / norms)


def test_centered_vectors_have_no_mean():
    vectors = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    np.testing.assert_array_equal(centered(vectors).mean(axis=1), np.zeros((2, 2)))


def test_cosines_are_between_every_two():
    vectors = np.array([[1, 0], [1, 1], [0, 0]], np.float32)
    root = np.sqrt(0.5)
    expected = [[1, root, 0], [root, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(cosines(vectors, vectors), expected, atol=1e-12)


def test_the_plane_keeps_the_two_widest_directions():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(200, 6)) * [0.1, 3, 0.1, 1, 0.1, 0.1]).astype(np.float32)
    points = plane(rows)
    assert abs(np.corrcoef(points[:, 0], rows[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(points[:, 1], rows[:, 3])[0, 1]) > 0.99


def test_the_plane_holds_the_two_directions_of_largest_variance():
    vectors = np.sin(np.arange(60, dtype=np.float32) ** 1.3).reshape(12, 5)
    found = exact_plane(vectors)
    values, directions = np.linalg.eigh(np.cov(vectors.T.astype(float)))
    expected = (vectors - vectors.mean(axis=0)) @ directions[:, [-1, -2]]
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-5)
    np.testing.assert_allclose(found.var(axis=0, ddof=1), values[[-1, -2]], rtol=1e-5)


def test_the_plane_does_not_depend_on_the_sign_an_algorithm_happens_to_give():
    vectors = np.sin(np.arange(60, dtype=np.float32) ** 1.3).reshape(12, 5)
    turned = vectors @ np.linalg.qr(np.cos(np.arange(25.0) ** 2).reshape(5, 5))[0]
    np.testing.assert_allclose(
        exact_plane(turned.astype(np.float32)), exact_plane(vectors), atol=1e-5
    )


@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (4, 1)])
def test_uses_that_do_not_differ_are_one_point(shape: tuple[int, int]):
    assert (exact_plane(np.ones(shape, dtype=np.float32)) == 0).all()
