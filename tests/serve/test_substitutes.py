"""Substitutes over HTTP, against the predictor itself; refused where the model cannot predict."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from elmore.predictor.predictor import Predictor
from elmore.serve.app import create_app
from elmore.serve.config import ServeConfig
from tests.predictor.tiny_language_model import make_language_model
from tests.serve.test_routes import problem
from tests.tiny_bert import tiny_bert

WORDS = ["the", "river", "bank", "lent", "money", "."]


def made(kind: str, folder: Path) -> Checkpoint:
    if kind == "elmo":
        make_language_model(folder)
        return load(folder / "weights.hdf5", heads=True)
    return tiny_bert(heads=True)


@pytest.fixture(params=["bert", "elmo"], scope="module")
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    return Embedder(made(request.param, tmp_path_factory.mktemp(request.param)), device="cpu")


@pytest.fixture(scope="module")
def client(embedder: Embedder) -> Iterator[TestClient]:
    config = ServeConfig(max_words=300)
    with TestClient(create_app(embedder, config=config)) as client:
        yield client


@pytest.mark.parametrize("sentence", [WORDS, "the river bank lent money."])
def test_they_are_those_of_the_predictor(client: TestClient, embedder: Embedder, sentence: Any):
    asked = {"sentence": sentence, "position": 2, "top": 4}
    answer = client.post("/substitutes", json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.json()["query"] == {"words": WORDS, "position": 2}
    predictor = Predictor.of(embedder)
    assert predictor is not None
    (wanted,) = predictor.substitutes([(WORDS, 2)], top=4)
    found = answer.json()["substitutes"]
    assert [one["word"] for one in found] == [one.word for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one["probability"] == pytest.approx(other.probability, abs=1e-6)
    assert client.get("/info").json()["substitutes"] is True


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"sentence": WORDS, "position": 6}, 422, "position is 6; the sentence has 6 words."),
        ({"sentence": "", "position": 0}, 422, "position is 0; the sentence has 0 words."),
        ({"sentence": WORDS, "position": -1}, 422, "position:"),
        ({"sentence": WORDS, "position": 0, "top": 101}, 422, "top:"),
        ({"sentence": WORDS, "position": 0, "top": 0}, 422, "top:"),
        ({"sentence": WORDS}, 422, "position:"),
        ({"sentence": ["a"] * 301, "position": 0}, 413, "301"),
    ],
)
def test_a_bad_question_is_refused_in_one_line(
    client: TestClient, asked: dict[str, Any], status: int, said: str
):
    assert said in problem(client.post("/substitutes", json=asked), status)


def test_a_model_without_a_head_has_none(tiny_embedder: Embedder):
    with TestClient(create_app(tiny_embedder)) as client:
        assert client.get("/info").json()["substitutes"] is False
        said = problem(client.post("/substitutes", json={"sentence": WORDS, "position": 2}), 404)
        assert said == "The model of this server has no head or softmax for words."


def test_heads_are_loaded_only_if_asked_for(tmp_path: Path):
    save(tiny_bert(heads=True), tmp_path / "bert")
    assert Predictor.of(Embedder.load(tmp_path / "bert")) is None
    assert Predictor.of(Embedder.load(tmp_path / "bert", heads=True)) is not None
