"""The lens over HTTP: vectors, cosines, neighbors and senses, and a model without one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from elmore.embedder import Embedder
from elmore.search.index import Index
from elmore.serve.app import create_app
from tests.lens.lensed import with_lens
from tests.serve.test_routes import problem
from tests.serve.test_search_routes import CORPUS, SENTENCE


@pytest.fixture(scope="module")
def embedder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    return Embedder.load(with_lens(tiny_model, tmp_path_factory.mktemp("lens") / "model"))


@pytest.fixture(scope="module")
def index(embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Index:
    pytest.importorskip("sklearn", reason="the extra `search` is not installed")
    folder = tmp_path_factory.mktemp("serve") / "index"
    return Index.build(CORPUS, embedder, folder, keep="all")


@pytest.fixture(scope="module")
def client(embedder: Embedder, index: Index) -> Iterator[TestClient]:
    with TestClient(create_app(embedder, index=index)) as client:
        yield client


def test_vectors_are_those_of_the_lens(client: TestClient, embedder: Embedder):
    asked = {"sentences": [SENTENCE], "layers": "meaning"}
    (found,) = client.post("/embed", json=asked).json()["sentences"]
    (expected,) = embedder.embed([SENTENCE])
    np.testing.assert_array_equal(np.float32(found["layers"]), expected.meaning[None])


def test_cosines_by_the_lens_come_beside_those_of_the_layers(
    client: TestClient, embedder: Embedder
):
    answer = client.post("/similarity", json={"a": SENTENCE, "b": CORPUS[0]}).json()
    assert len(answer["layers"]) == embedder.n_layers + 1
    a, b = (found.meaning.astype(np.float64) for found in embedder.embed([SENTENCE, CORPUS[0]]))
    a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (a, b))
    np.testing.assert_allclose(answer["meaning"], a @ b.T, atol=1e-5)


def test_neighbors_and_senses_are_by_the_lens_unless_asked_otherwise(
    client: TestClient, index: Index
):
    question = {"sentence": SENTENCE, "position": 4}
    found = client.post("/neighbors", json=question).json()
    assert found == client.post("/neighbors", json={**question, "layer": "meaning"}).json()
    expected = index.neighbors(SENTENCE, 4, layer="meaning")
    assert [near["id"] for near in found["neighbors"]] == [near.use.id for near in expected]
    assert found != client.post("/neighbors", json={**question, "layer": 2}).json()
    senses = client.get("/senses?word=bank").json()
    assert senses == client.get("/senses?word=bank&layer=meaning").json()
    assert senses["map"] != client.get("/senses?word=bank&layer=mix").json()["map"]


def test_info_says_what_there_is(client: TestClient):
    info = client.get("/info").json()
    assert info["meaning"] is True
    assert info["index"]["layers"] == [0, 1, 2, "mix", "meaning"]


def test_a_model_without_one_says_so(tiny_embedder: Embedder):
    with TestClient(create_app(tiny_embedder)) as client:
        assert client.get("/info").json()["meaning"] is False
        answer = client.post("/similarity", json={"a": SENTENCE, "b": SENTENCE}).json()
        assert answer["meaning"] is None
        refused = client.post("/embed", json={"sentences": [SENTENCE], "layers": "meaning"})
        assert "the model has no lens for meaning" in problem(refused, 422)
