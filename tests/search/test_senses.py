"""Groups are found where there are some, and nowhere else."""

from pathlib import Path

import numpy as np
import pytest

from elmore.search import index as indexing
from elmore.search.index import Index
from elmore.search.senses import characteristic, group, plane, silhouette
from elmore.search.uses import Use
from elmore.search.vector_space import unit
from tests.search.corpora import corpus
from tests.store.waves import waves


def clouds(sizes: list[int], apart: float, dim: int = 30) -> np.ndarray:
    """Gaussian clouds round orthogonal middles, rows of length one."""
    rng = np.random.default_rng(0)
    middles = np.eye(dim)[: len(sizes)] * apart
    rows = [rng.normal(size=(n, dim)) * 0.1 + m for n, m in zip(sizes, middles, strict=True)]
    return unit((np.concatenate(rows) + 0.3).astype(np.float32))


@pytest.mark.parametrize("sizes", [[80, 40], [60, 50, 40], [40, 30, 20, 10]])
def test_clouds_that_lie_apart_are_found(sizes: list[int]):
    groups = group(clouds(sizes, apart=1.0))
    assert np.bincount(groups.labels).tolist() == sizes
    assert (np.diff(groups.labels) >= 0).all()  # the largest first, and no point strays
    assert groups.separation > 0.3


@pytest.mark.parametrize("seed", range(5))
def test_one_cloud_is_one_sense(seed: int):
    rng = np.random.default_rng(seed)
    stretched = rng.normal(size=(150, 30)) * np.geomspace(1, 0.05, 30) + 2
    groups = group(unit(stretched.astype(np.float32)))
    assert groups.labels.tolist() == [0] * 150
    assert groups.separation == 0


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_uses_are_one_sense(n: int):
    vectors = clouds([n], apart=1.0)
    assert group(vectors).labels.tolist() == [0] * n
    assert plane(vectors).shape == (n, 2)


def test_many_uses_are_grouped_by_some_of_them():
    groups = group(clouds([3000, 2000], apart=1.0))
    assert np.bincount(groups.labels).tolist() == [3000, 2000]


def test_the_plane_keeps_the_two_widest_directions():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(200, 6)) * [0.1, 3, 0.1, 1, 0.1, 0.1]).astype(np.float32)
    points = plane(rows)
    assert abs(np.corrcoef(points[:, 0], rows[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(points[:, 1], rows[:, 3])[0, 1]) > 0.99


@pytest.mark.parametrize("n_groups", [1, 2, 5])
def test_the_silhouette_is_that_of_scikit_learn(n_groups: int):
    metrics = pytest.importorskip("sklearn.metrics", reason="the extra `search` is not installed")
    rng = np.random.default_rng(n_groups)
    points = rng.normal(size=(40, 3)) + 3 * np.arange(40)[:, None] / 40
    points[1] = points[2]
    labels = np.arange(40) * n_groups // 40
    if n_groups > 2:
        labels[7] = n_groups  # a group of one
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    want = 0.0
    if n_groups > 1:
        want = metrics.silhouette_score(distances, labels, metric="precomputed")
    assert silhouette(distances, labels) == pytest.approx(want, abs=1e-12)


def uses(*sentences: str) -> list[Use]:
    return [Use(i, tuple(s.split()), s.split().index("bank")) for i, s in enumerate(sentences)]


def test_characteristic_words_tell_senses_apart_and_frequent_words_do_not():
    rivers = uses(*(f"the bank of the river {i} , the water" for i in range(20)))
    money = uses(*(f"a loan of the bank {i} and the money" for i in range(20)))
    rare = {"river": 30, "money": 30, "loan": 5, "and": 30_000}
    background = {"the": 60_000, "of": 30_000, "a": 20_000, "others": 900_000, **rare}
    found = characteristic(rivers, money, background, 3)
    assert set(found[:2]) == {"river", "water"}
    assert not {"the", "bank", ","} & set(found)
    assert "loan" in characteristic(money, rivers, background, 3)
    alone = characteristic(money, [], background, 2)
    assert set(alone) == {"loan", "money"}


def test_an_index_tells_senses_and_their_map(tmp_path: Path):
    index = Index.build(corpus(90), waves(), tmp_path / "i")
    found = index.senses("bank", typical=2)
    assert found.word == "bank"
    assert found.n_uses == len(index.uses("bank")) == sum(sense.size for sense in found.senses)
    for sense in found.senses:
        assert 1 <= len(sense.typical) <= 2
        assert all(use.word == "bank" for use in sense.typical)
    drawn = index.map("bank")
    assert drawn.points.shape == (found.n_uses, 2)
    assert np.bincount(drawn.senses).tolist() == [sense.size for sense in found.senses]
    assert [use.words for use in drawn.uses] == [use.words for use in index.uses("bank")]


def test_senses_and_map_are_found_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    index = Index.build(corpus(90), waves(), tmp_path / "i", keep="all")
    wanted, drawn = index.senses("bank", layer=1), index.map("bank", 1)
    times = 0

    def counted(vectors: np.ndarray):
        nonlocal times
        times += 1
        return group(vectors)

    monkeypatch.setattr(indexing, "group", counted)
    found, points = index.senses_and_map("bank", layer=1)
    assert times == 1
    assert found == wanted
    assert points.uses == drawn.uses
    np.testing.assert_array_equal(points.points, drawn.points)
    np.testing.assert_array_equal(points.senses, drawn.senses)
