"""Stores put together: every sound sentence once, none of another kind."""

from pathlib import Path

import numpy as np
import pytest

from elmore.errors import InputError
from elmore.store.keep import Projection
from elmore.store.layout import shard_name
from elmore.store.merge import merge
from elmore.store.store import Store
from tests.store.waves import sentences, wave, waves


def made(folder: Path, first: int, n: int, **choice: object) -> Path:
    Store.create(folder, waves(), **choice).fill(sentences(n, first))  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_each_sentence_is_there_once_bit_for_bit(tmp_path: Path, precision: str):
    one = made(tmp_path / "one", 0, 30, precision=precision)
    other = made(tmp_path / "other", 20, 30, precision=precision)
    whole = Store.merge([one, other], tmp_path / "whole")
    assert [e.words for e in whole] == sentences(50)
    for source in (Store.open(one), Store.open(other)):
        for embedding in source:
            np.testing.assert_array_equal(whole[embedding.words].layers, embedding.layers)
    assert whole.verify().damages == []
    again = merge([one, other], tmp_path / "whole")
    assert (again.added, again.repeated) == (0, 60)


def test_an_existing_store_is_added_to_and_can_be_filled_on(tmp_path: Path):
    one, other = made(tmp_path / "one", 0, 5), made(tmp_path / "other", 5, 5)
    assert merge([other], one).added == 5
    store = Store.open(one, waves())
    store.fill(sentences(12))
    assert [e.words for e in store] == sentences(12)


def test_a_projection_goes_along(tmp_path: Path):
    projection = Projection.learn(waves().stream(sentences(40)), 6)
    one = made(tmp_path / "one", 0, 9, keep=projection)
    whole = Store.merge([one, made(tmp_path / "other", 9, 9, keep=projection)], tmp_path / "whole")
    assert whole.projection is not None
    np.testing.assert_array_equal(whole.projection.components, projection.components)
    words = sentences(18)[15]
    np.testing.assert_allclose(whole[words].layers, projection.project(wave(words)), atol=1e-6)


def test_damaged_sentences_are_left_out_and_named(tmp_path: Path):
    one = made(tmp_path / "one", 0, 20)
    data = bytearray((one / shard_name(0)).read_bytes())
    data[1000] ^= 1
    (one / shard_name(0)).write_bytes(data)
    report = merge([one], tmp_path / "copy")
    assert report.added == 19
    (left_out,) = report.left_out
    assert left_out[0] == one
    missing = left_out[1].sentence
    assert missing is not None
    copy = Store.open(tmp_path / "copy", waves())
    assert copy.verify().damages == []
    copy.fill(sentences(20))
    np.testing.assert_array_equal(copy[sentences(20)[missing]].layers, wave(sentences(20)[missing]))


def test_other_kinds_are_refused_by_name(tmp_path: Path):
    one = made(tmp_path / "one", 0, 3)
    half = made(tmp_path / "half", 0, 3, precision="float16")
    top = made(tmp_path / "top", 0, 3, keep="top")
    Store.create(tmp_path / "foreign", waves("foreign"))
    for other, said in (
        (half, "its precision is float16, but that of .*one is float32"),
        (top, "its keep is layers 2, but that of .*one is layers 0, 1, 2"),
        (tmp_path / "foreign", f"its model is {waves('foreign').fingerprint[:12]}"),
    ):
        with pytest.raises(InputError, match=said):
            merge([one, other], tmp_path / "whole")
        with pytest.raises(InputError, match="only stores with the same settings"):
            merge([one], other)
    assert not (tmp_path / "whole").exists()
    with pytest.raises(InputError, match="No stores"):
        merge([], tmp_path / "whole")
