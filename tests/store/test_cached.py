"""An embedder with a store behind it gives what the embedder gives, and computes it once."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from elmore.files.lock import Lock
from elmore.store.cached import CachedEmbedder
from elmore.store.store import Store
from tests.store.waves import waves
from tests.tiny_models import SENTENCES


@pytest.fixture
def cached(tmp_path: Path, tiny_embedder: Embedder) -> CachedEmbedder:
    return CachedEmbedder(tiny_embedder, Store.create(tmp_path / "s", tiny_embedder))


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("asked the model")


def test_it_gives_what_the_embedder_gives(cached: CachedEmbedder, tiny_embedder: Embedder):
    asked = [*SENTENCES, "The river bank.", SENTENCES[0]]
    for _ in range(2):
        for got, want in zip(cached.embed(asked), tiny_embedder.embed(asked), strict=True):
            assert (got.words, got.spans) == (want.words, want.spans)
            np.testing.assert_allclose(got.layers, want.layers, rtol=0, atol=1e-5)
    assert [e.words for e in cached.stream(iter(asked))] == [e.words for e in cached.embed(asked)]
    assert len(cached.store) == len(SENTENCES)


def test_repeated_sentences_do_not_share_their_numbers(cached: CachedEmbedder):
    for _ in range(2):  # computed, then read
        one, other = cached.embed([SENTENCES[0], SENTENCES[0]])
        one.layers[:] = 0
        assert other.layers.any()


def test_the_model_is_not_asked_twice(cached: CachedEmbedder, monkeypatch: pytest.MonkeyPatch):
    first = cached.embed(SENTENCES)
    monkeypatch.setattr(cached.embedder, "embed", refuse)
    for one, other in zip(first, cached.stream(SENTENCES), strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)


def test_the_first_time_is_as_the_second(tmp_path: Path, tiny_embedder: Embedder):
    store = Store.create(tmp_path / "s", tiny_embedder, keep="average", precision="int8")
    cached = CachedEmbedder(tiny_embedder, store)
    assert (cached.n_layers, cached.dim) == (1, tiny_embedder.dim)
    first, second = cached.embed(SENTENCES), cached.embed(SENTENCES)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)


def test_its_fingerprint_is_of_its_own_vectors(tmp_path: Path, tiny_embedder: Embedder):
    prints = {tiny_embedder.fingerprint}
    for keep, precision in (("all", "float32"), ("all", "int8"), ("average", "int8")):
        store = Store.create(
            tmp_path / (keep + precision), tiny_embedder, keep=keep, precision=precision
        )
        prints.add(CachedEmbedder(tiny_embedder, store).fingerprint)
    assert len(prints) == 4


def test_it_stands_where_an_embedder_does(cached: CachedEmbedder, tmp_path: Path):
    lines = ["The river bank .", "one"]
    report = dump(cached, lines, tmp_path / "a.npz", DumpConfig(format="npz"))
    assert report.words == 5
    with np.load(tmp_path / "a.npz") as archive:
        np.testing.assert_array_equal(archive["1"], cached.store[["one"]].layers)


def test_a_busy_store_is_read_but_not_waited_for(cached: CachedEmbedder):
    lock = Lock(cached.store.path)
    try:
        assert len(cached.embed(SENTENCES)) == len(SENTENCES)
        assert len(cached.store) == 0
    finally:
        lock.release()
    cached.embed(SENTENCES)
    assert len(cached.store) == len(SENTENCES)


def test_another_models_store_is_refused(tmp_path: Path, tiny_embedder: Embedder):
    store = Store.create(tmp_path / "s", waves())
    with pytest.raises(InputError, match=tiny_embedder.fingerprint[:12]):
        CachedEmbedder(tiny_embedder, store)


def test_state_cannot_be_stored(cached: CachedEmbedder):
    with pytest.raises(ConfigError, match="depend on earlier sentences"):
        cached.stateful()


@pytest.mark.parametrize("wrong", ["one string", 7, [["a", 1]], [7]])
def test_bad_input_is_refused_as_by_an_embedder(cached: CachedEmbedder, wrong: object):
    with pytest.raises(InputError):
        cached.embed(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        list(cached.stream(wrong))  # type: ignore[arg-type]


def test_a_store_that_may_only_be_read_is_read_and_the_rest_computed(
    tmp_path: Path, tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    store = Store.create(tmp_path / "a.store", tiny_embedder)
    store.fill([["My", "bank"]])
    opened = os.open

    def no_right(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if Path(path).name == "lock" and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", no_right)
    elmo = CachedEmbedder(tiny_embedder, Store.open(tmp_path / "a.store"))
    assert [e.words for e in elmo.embed([["My", "bank"], ["The", "river"]])] == [
        ["My", "bank"], ["The", "river"],
    ]  # fmt: skip
    assert ["The", "river"] not in Store.open(tmp_path / "a.store")
