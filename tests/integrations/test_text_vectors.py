"""One vector per text, against its definition; and the two methods that LangChain calls."""

from pathlib import Path

import numpy as np
import pytest

from elmore import Embedder, Store
from elmore.errors import ConfigError, InputError
from elmore.integrations.langchain import TextEmbeddings
from elmore.integrations.text_vectors import cached_in, text_vectors

TEXTS = ["We sat on the bank. The river rose!", "One.", "", ["already", "words"]]
SENTENCES = [
    [["We", "sat", "on", "the", "bank", "."], ["The", "river", "rose", "!"]],
    [["One", "."]],
    [],
    [["already", "words"]],
]


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
@pytest.mark.parametrize("layers", ["average", "all", "top", "0,2"])
def test_the_words_of_all_sentences_are_pooled(tiny_embedder: Embedder, pooling: str, layers: str):
    found = text_vectors(tiny_embedder, TEXTS, pooling, layers)  # type: ignore[arg-type]
    for vector, parts in zip(found, SENTENCES, strict=True):
        if not parts:
            assert not vector.any()
            continue
        states = np.concatenate([e.layers for e in tiny_embedder.embed(parts)], axis=1)
        kept = {
            "average": states.mean(axis=0, keepdims=True),
            "all": states,
            "top": states[-1:],
            "0,2": states[[0, 2]],
        }[layers]
        pooled = {"mean": kept.mean(axis=1), "max": kept.max(axis=1), "first": kept[:, 0]}[pooling]
        np.testing.assert_allclose(vector, pooled.reshape(-1), rtol=0, atol=1e-6)


def test_a_store_computes_each_text_once(
    tiny_embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = text_vectors(cached_in(tiny_embedder, tmp_path / "s"), TEXTS, "mean", "all")
    assert len(Store.open(tmp_path / "s")) == 4
    monkeypatch.setattr(Embedder, "_embed_window", None)
    again = text_vectors(cached_in(tiny_embedder, tmp_path / "s"), TEXTS, "mean", "all")
    np.testing.assert_array_equal(first, again)


def test_what_is_no_text(tiny_embedder: Embedder):
    with pytest.raises(InputError, match="Text 1 is a int"):
        text_vectors(tiny_embedder, ["a", 3], "mean", "all")  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="pooling is 'sum'; expected mean, max, first"):
        text_vectors(tiny_embedder, ["a"], "sum", "all")  # type: ignore[arg-type]


def test_documents_and_queries(tiny_embedder: Embedder):
    embeddings = TextEmbeddings(tiny_embedder)
    documents = embeddings.embed_documents(["a river", "a bank"])
    assert documents[1] == embeddings.embed_query("a bank")
    assert all(type(number) is float for row in documents for number in row)


def test_in_a_vector_store_of_langchain():
    stores = pytest.importorskip("langchain_core.vectorstores", reason="langchain-core is missing")
    store = stores.InMemoryVectorStore(TextEmbeddings())
    store.add_texts(["We fished from the river bank.", "The bank raised its interest rates."])
    (found,) = store.similarity_search("They swam near the shore.", k=1)
    assert "river" in found.page_content
