"""Principal components, against NumPy's singular values of the centred sample."""

from pathlib import Path

import numpy as np
import pytest

from elmore.embedding import Embedding
from elmore.errors import ConfigError, FormatError
from elmore.store.keep import Projection

RNG = np.random.default_rng(0)
SAMPLE = [
    Embedding(["w"] * n, (RNG.normal(size=(2, n, 6)) * np.arange(1, 7)).astype(np.float32) + 3)
    for n in (10, 0, 25, 7)
]
ROWS = np.concatenate([e.layers.transpose(1, 0, 2).reshape(len(e), 12) for e in SAMPLE])


@pytest.mark.parametrize("dim", [1, 4, 12])
def test_it_explains_what_the_singular_values_say(dim: int):
    _, values, axes = np.linalg.svd((ROWS - ROWS.mean(0)).astype(np.float64), full_matrices=False)
    found = Projection.learn(SAMPLE, dim)
    assert found.explained == pytest.approx((values[:dim] ** 2).sum() / (values**2).sum(), abs=1e-6)
    np.testing.assert_allclose(np.abs(found.components), np.abs(axes[:dim]), rtol=0, atol=1e-4)


def test_all_components_bring_everything_back():
    found = Projection.learn(SAMPLE, 12)
    for e in SAMPLE:
        projected = found.project(e.layers)
        assert projected.shape == (1, len(e), 12)
        np.testing.assert_allclose(found.restore(projected, 2), e.layers, rtol=0, atol=1e-4)


def test_it_is_the_same_each_time():
    one, other = Projection.learn(SAMPLE, 5), Projection.learn(SAMPLE, 5)
    np.testing.assert_array_equal(one.components, other.components)


@pytest.mark.parametrize("dim", [0, 13, 100])
def test_a_size_that_cannot_be_is_refused(dim: int):
    with pytest.raises(ConfigError, match=r"42 words with 12 numbers each allows 1 to 12"):
        Projection.learn(SAMPLE, dim)


def test_a_damaged_file_is_refused(tmp_path: Path):
    found = Projection.learn(SAMPLE, 3)
    checksum = found.save(tmp_path / "p.npy")
    again = Projection.load(tmp_path / "p.npy", checksum, found.explained)
    np.testing.assert_array_equal(again.components, found.components)
    data = bytearray((tmp_path / "p.npy").read_bytes())
    data[-1] ^= 1
    (tmp_path / "p.npy").write_bytes(data)
    with pytest.raises(FormatError, match="damaged"):
        Projection.load(tmp_path / "p.npy", checksum, found.explained)
