"""The first module of a `SentenceTransformer`."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="sentence-transformers is missing")

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from elmore import Embedder
from elmore.integrations.sentence_transformers import ElmoreWords

TEXTS = ["We sat on the bank.", "One", "the river rose and rose"]


def test_encode_save_and_load(tiny_embedder: Embedder, tmp_path: Path):
    words = ElmoreWords(tiny_embedder, layers="top")
    modules = [words, Pooling(words.get_embedding_dimension())]
    model = SentenceTransformer(modules=modules, device="cpu")
    found = model.encode(TEXTS, batch_size=2)
    expected = [e.top.mean(axis=0) for e in tiny_embedder.embed(TEXTS)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert model.similarity(found, found).shape == (3, 3)
    model.save(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    np.testing.assert_array_equal(again.encode(TEXTS, batch_size=2), found)
