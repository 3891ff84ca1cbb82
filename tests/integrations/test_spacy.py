"""The component in spaCy's own pipelines."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("spacy", reason="spaCy is missing")

import spacy
from spacy.tokens import Doc

from elmore import Embedder
from elmore.errors import InputError
from elmore.integrations.spacy import set_hooks

TEXTS = ["We sat on the bank. The river rose!", "One  two", ""]


def blank(model: Path | str, **config: str):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmore", config={"model": str(model), "device": "cpu", **config})
    return nlp


def expected(embedder: Embedder, doc: Doc) -> np.ndarray:
    rows = np.zeros((len(doc), embedder.dim), np.float32)
    for part in doc.sents:
        words = [token for token in part if not token.is_space]
        if words:
            (found,) = embedder.embed([[token.text for token in words]])
            rows[[token.i for token in words]] = found.average
    return rows


def test_every_token_has_its_vector_in_its_sentence(tiny_model: Path, tiny_embedder: Embedder):
    nlp = blank(tiny_model)
    for doc in [*nlp.pipe(TEXTS), nlp(TEXTS[0])]:
        np.testing.assert_allclose(doc.tensor, expected(tiny_embedder, doc), rtol=0, atol=1e-6)
        for token in doc:
            np.testing.assert_array_equal(token.vector, doc.tensor[token.i])
        if len(doc):
            np.testing.assert_allclose(doc.vector, doc.tensor.mean(axis=0), atol=1e-6)
            np.testing.assert_allclose(doc[0:2].vector, doc.tensor[:2].mean(axis=0), atol=1e-6)


def test_vectors_of_the_vocabulary_do_not_get_in_the_way(tiny_model: Path):
    nlp = blank(tiny_model)
    nlp.vocab.set_vector("bank", np.ones(3, np.float32))
    doc = nlp(TEXTS[0])
    np.testing.assert_array_equal(doc[4].vector, doc.tensor[4])
    with pytest.warns(UserWarning, match="user hooks"):  # spaCy does not keep them
        again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    np.testing.assert_array_equal(again.tensor, doc.tensor)
    set_hooks(again)
    np.testing.assert_array_equal(again[4].vector, doc.tensor[4])


def test_to_disk_and_back(tiny_model: Path, tmp_path: Path):
    nlp = blank(tiny_model, layers="0,2")
    nlp.to_disk(tmp_path / "pipeline")
    moved = (tmp_path / "pipeline").rename(tmp_path / "moved")
    again = spacy.load(moved)
    np.testing.assert_array_equal(again(TEXTS[0]).tensor, nlp(TEXTS[0]).tensor)
    assert again(TEXTS[0]).tensor.shape[1] == 32
    nlp.to_disk(moved)  # the same model: nothing to write
    other = blank("small-en")
    with pytest.raises(InputError, match="has another model"):
        other.to_disk(moved)


def test_two_processes(tiny_model: Path):
    nlp = blank(tiny_model)
    alone = [doc.tensor for doc in nlp.pipe(TEXTS)]
    for doc, tensor in zip(nlp.pipe(TEXTS, n_process=2, batch_size=1), alone, strict=True):
        np.testing.assert_array_equal(doc.tensor, tensor)
        assert all((token.vector == tensor[token.i]).all() for token in doc)
