"""Characteristic words of senses, and the senses that an index finds."""

from pathlib import Path

import numpy as np
import pytest

from elmore.search import senses
from elmore.search.index import Index
from elmore.search.senses import characteristic
from elmore.uses.clusters import cluster
from elmore.uses.use import Use
from tests.search.corpora import corpus
from tests.store.waves import waves


def uses(*sentences: str) -> list[Use]:
    return [Use(tuple(s.split()), s.split().index("bank")) for s in sentences]


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
        return cluster(vectors)

    monkeypatch.setattr(senses, "cluster", counted)
    found, points = index.senses_and_map("bank", layer=1)
    assert times == 1
    assert found == wanted
    assert points.uses == drawn.uses
    np.testing.assert_array_equal(points.points, drawn.points)
    np.testing.assert_array_equal(points.senses, drawn.senses)


def test_function_words_never_tell_a_sense():
    """Even where they are far more frequent near one sense than near the other."""
    rivers = uses(*(f"what a bank of the river {i} I saw , the water" for i in range(20)))
    money = uses(*(f"loan money bank {i} credit" for i in range(20)))
    background = {"river": 30, "what": 40, "I": 40, "a": 40, "others": 900_000}
    found = characteristic(rivers, money, background, 10)
    assert set(found) == {"river", "saw", "water"}
    assert not {"what", "a", "I", "the", "of"} & set(found)
