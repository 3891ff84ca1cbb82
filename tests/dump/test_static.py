"""Word2vec text: read back by elmore and by gensim with the same bits."""

from pathlib import Path

import numpy as np
import pytest

from elmore import Embedder
from elmore.cli.main import main
from elmore.dump.static_vectors import distinct_words, write_static
from elmore.errors import InputError
from elmore.models.static import StaticVectors

TEXT = "the river bank\nthe bank 東京\nthe naïve 10.5\n"


@pytest.fixture
def written(tiny_model: Path, tmp_path: Path) -> Path:
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    target = tmp_path / "vectors.txt"
    given = ["export", str(tiny_model), str(tmp_path / "text"), str(target)]
    assert main([*given, "--quiet"]) == 2  # without --static
    assert main([*given, "--static", "--quiet"]) == 0
    assert main([*given, "--static", "--quiet"]) == 2  # it is there already
    return target


def test_words_by_frequency():
    assert distinct_words([line.split() for line in TEXT.splitlines()]) == [
        "the", "bank", "river", "東京", "naïve", "10.5",
    ]  # fmt: skip
    assert distinct_words([["b", "a", "a"]], 1) == ["a"]


def test_elmore_reads_it_back(written: Path, tiny_embedder: Embedder):
    found = StaticVectors.load(written)
    expected = tiny_embedder.static([[word] for word in found.words])
    np.testing.assert_array_equal(found.vectors, expected)
    first = tiny_embedder.embed([["the", "bank"]])[0].layers[0]
    np.testing.assert_allclose(found.vectors[:2], first, rtol=0, atol=1e-6)  # layer 0


def test_gensim_reads_it(written: Path, tiny_embedder: Embedder):
    models = pytest.importorskip("gensim.models", reason="gensim is missing")
    vectors = models.KeyedVectors.load_word2vec_format(str(written))
    assert vectors.index_to_key == ["the", "bank", "river", "東京", "naïve", "10.5"]
    np.testing.assert_array_equal(vectors["東京"], tiny_embedder.static([["東京"]])[0])
    assert len(vectors.most_similar("bank", topn=2)) == 2


@pytest.mark.parametrize("words", [[], [""], ["two words"], ["a\u00a0b"]])
def test_words_that_the_format_cannot_hold(
    tiny_embedder: Embedder, tmp_path: Path, words: list[str]
):
    with pytest.raises(InputError):
        write_static(tiny_embedder, words, tmp_path / "v.txt")
    assert list(tmp_path.iterdir()) == []
