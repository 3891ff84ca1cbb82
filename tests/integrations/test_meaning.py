"""`layers="meaning"` wherever one vector per word or text is asked for."""

from pathlib import Path

import numpy as np
import pytest

from elmore import Embedder
from elmore.errors import ConfigError
from elmore.integrations.text_vectors import cached_in, text_vectors
from tests.lens.lensed import with_lens

WORDS = ["We", "sat", "on", "the", "bank", "."]
TEXT = "We sat on the bank."


@pytest.fixture(scope="module")
def model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_lens(tiny_model, tmp_path_factory.mktemp("lens") / "model")


@pytest.fixture(scope="module")
def embedder(model: Path) -> Embedder:
    return Embedder.load(model, device="cpu")


@pytest.fixture(scope="module")
def expected(embedder: Embedder) -> np.ndarray:
    """By hand, (n, D)."""
    assert embedder.lens is not None
    (found,) = embedder.embed([WORDS])
    return found.layers[2] @ embedder.lens.weight.T + embedder.lens.bias


def test_sentence_vectors(embedder: Embedder, tiny_embedder: Embedder, expected: np.ndarray):
    (found,) = embedder.sentence_vectors([TEXT], layers="meaning")
    np.testing.assert_allclose(found, expected.mean(axis=0), rtol=0, atol=1e-5)
    with pytest.raises(ConfigError, match="the model has no lens"):
        tiny_embedder.sentence_vectors([TEXT], layers="meaning")


def test_text_vectors_also_from_a_store(embedder: Embedder, expected: np.ndarray, tmp_path: Path):
    for source in (
        embedder,
        cached_in(embedder, tmp_path / "s"),
        cached_in(embedder, tmp_path / "s"),
    ):
        (found,) = text_vectors(source, [TEXT], "max", "meaning")
        np.testing.assert_allclose(found, expected.max(axis=0), rtol=0, atol=1e-5)


def test_scikit_learn(model: Path, expected: np.ndarray):
    pytest.importorskip("sklearn", reason="scikit-learn is missing")
    from elmore.integrations.sklearn import ElmoVectorizer

    vectorizer = ElmoVectorizer(str(model), layers="meaning", device="cpu")
    (found,) = vectorizer.fit_transform([TEXT])
    np.testing.assert_allclose(found, expected.mean(axis=0), rtol=0, atol=1e-5)


def test_spacy(model: Path, expected: np.ndarray):
    spacy = pytest.importorskip("spacy", reason="spaCy is missing")
    import elmore.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("elmore", config={"model": str(model), "layers": "meaning", "device": "cpu"})
    np.testing.assert_allclose(nlp(TEXT).tensor, expected, rtol=0, atol=1e-5)


def test_sentence_transformers(embedder: Embedder, expected: np.ndarray):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is missing")
    from elmore.integrations.sentence_transformers import ElmoreWords

    words = ElmoreWords(embedder, layers="meaning")
    found = words(words.preprocess([TEXT]))["token_embeddings"][0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
