"""A store in the place of a model."""

from pathlib import Path

import numpy as np
import pytest

from elmore.search.index import Index
from elmore.store.cached import CachedEmbedder, StoredLayers
from elmore.store.store import MissingError, Store
from tests.store.waves import sentences, wave, waves

WORDS = [words for words in sentences(30) if words]


def test_it_gives_what_the_store_keeps(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves(), keep="0,2")
    store.fill(WORDS)
    source = StoredLayers(store)
    assert (source.n_layers, source.dim) == (2, 8)
    assert source.fingerprint == CachedEmbedder(waves(), store).fingerprint != waves().fingerprint
    for words, embedding in zip(WORDS, source.stream(WORDS), strict=True):
        np.testing.assert_array_equal(embedding.layers, wave(words)[[0, 2]])
    pairs = list(source.stream(enumerate(WORDS), key=lambda pair: pair[1]))
    assert [item for item, _ in pairs] == list(enumerate(WORDS))
    with pytest.raises(MissingError, match="'new words'"):
        next(source.stream([["new", "words"]]))


def test_an_index_is_built_from_a_store_alone(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(WORDS)
    Index.build(WORDS, StoredLayers(Store.open(tmp_path / "s")), tmp_path / "a", keep="all")
    Index.build(WORDS, waves(), tmp_path / "b", keep="all")
    for path in (tmp_path / "b").glob("segment-*/*"):
        if path.name in ("keys.bin", "checksums.bin"):  # hashes, which depend on the fingerprint
            continue
        assert (tmp_path / "a" / path.parent.name / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("model", "keep", "found"),
    [(True, "all", True), (True, "0,2", True), (True, "top", False), (False, "all", False)],
)
def test_a_store_remembers_whether_layer_0_has_context(
    model: bool, keep: str, found: bool, tmp_path: Path
):
    Store.create(tmp_path / "s", waves(context_free=model), keep=keep)
    assert Store.open(tmp_path / "s").context_free == found
    assert ("context_free" in (tmp_path / "s" / "manifest.json").read_text()) != model
