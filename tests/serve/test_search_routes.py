"""Neighbours and senses over HTTP, against the index itself."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from elmore.embedder import Embedder
from elmore.errors import InputError
from elmore.search.index import Index
from elmore.serve.app import create_app
from elmore.serve.config import ServeConfig
from elmore.serve.word_list import ListedWord, Order, WordList
from tests.serve.test_routes import problem
from tests.tiny_models import make

PLACES = "river lake stream canal valley castle garden village".split()
THINGS = "money loan account savings cheque credit deposit fortune".split()
CORPUS = [
    *(f"They sat on the grassy bank of the {place} and ate .".split() for place in PLACES),
    *(f"The bank lent her the {thing} at a high rate .".split() for thing in THINGS),
    ["他", "去", "银行", "存", "钱", "1/2", "。"],
]
SENTENCE = "We walked along the bank of the river .".split()


@pytest.fixture(scope="module")
def index(tiny_embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Index:
    pytest.importorskip("sklearn", reason="the extra `search` is not installed")
    folder = tmp_path_factory.mktemp("serve") / "index"
    return Index.build(CORPUS, tiny_embedder, folder, keep="all")


@pytest.fixture(scope="module")
def client(tiny_embedder: Embedder, index: Index) -> Iterator[TestClient]:
    with TestClient(create_app(tiny_embedder, index=index)) as client:
        yield client


@pytest.mark.parametrize(
    ("asked", "layer"),
    [
        ({}, "mix"),
        ({"layer": 2, "k": 3}, 2),
        ({"weights": [0.5, 0.0, 1.5]}, [0.5, 0.0, 1.5]),
        ({"same_word": False, "layer": 1}, 1),
    ],
)
def test_neighbors_are_those_of_the_index(
    client: TestClient, index: Index, asked: dict[str, Any], layer: Any
):
    answer = client.post("/neighbors", json={"sentence": SENTENCE, "position": 4, **asked}).json()
    assert answer["query"] == {"words": SENTENCE, "position": 4}
    k, same_word = asked.get("k", 10), asked.get("same_word", True)
    expected = index.neighbors(SENTENCE, 4, k, layer=layer, same_word=same_word)
    assert len(answer["neighbors"]) == len(expected) == k
    for found, near in zip(answer["neighbors"], expected, strict=True):
        assert (found["id"], found["position"]) == (near.use.id, near.use.position)
        assert found["words"] == list(near.use.words)
        assert found["score"] == pytest.approx(near.score, abs=1e-5)
    static = index.static_neighbors("bank", k)
    assert [near["word"] for near in answer["static"]] == [near.word for near in static]


def test_a_text_is_asked_about_by_the_position_of_its_words(client: TestClient):
    asked = {"sentence": "We walked along the bank.", "position": 4}
    answer = client.post("/neighbors", json=asked).json()
    assert answer["query"] == {
        "words": ["We", "walked", "along", "the", "bank", "."],
        "position": 4,
    }
    assert all(use["words"][use["position"]] == "bank" for use in answer["neighbors"])


def test_a_word_that_is_not_indexed_has_neighbors_among_others_only(client: TestClient):
    asked = {"sentence": ["a", "zebra"], "position": 1}
    said = problem(client.post("/neighbors", json=asked), 404)
    assert said == "'zebra' is not a word of this server's index."
    answer = client.post("/neighbors", json={**asked, "same_word": False}).json()
    assert (len(answer["neighbors"]), answer["static"]) == (10, [])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"position": 9}, "position is 9; the sentence has 9 words."),
        ({"position": -1}, "position: Input should be greater than or equal to 0."),
        ({"position": 4, "k": 0}, "k: Input should be greater than or equal to 1."),
        ({"position": 4, "k": 1001}, "k: Input should be less than or equal to 1000."),
        ({"position": 4, "layer": 3}, "layer is 3, but the index keeps layers 0, 1, 2"),
        ({"position": 4, "weights": [1]}, "expected 3 weights"),
        ({"position": 4, "weights": [0, 0, 0]}, "not all of them 0"),
        ({"position": 4, "layer": 1, "weights": [1, 1, 1]}, "weights are those of a mix"),
    ],
)
def test_what_cannot_be_searched_is_said(client: TestClient, asked: dict[str, Any], said: str):
    assert said in problem(client.post("/neighbors", json={"sentence": SENTENCE, **asked}), 422)


@pytest.mark.parametrize("layer", ["mix", 2])
def test_senses_and_map_are_those_of_the_index(client: TestClient, index: Index, layer: Any):
    for _ in range(2):  # computed, and kept
        answer = client.get("/senses/bank", params={"layer": layer}).json()
        expected, points = index.senses("bank", layer=layer), index.map("bank", layer)
        assert (answer["word"], answer["n_uses"]) == ("bank", 16)
        assert [sense["size"] for sense in answer["senses"]] == [s.size for s in expected.senses]
        for found, sense in zip(answer["senses"], expected.senses, strict=True):
            assert [use["id"] for use in found["typical"]] == [use.id for use in sense.typical]
            assert found["characteristic"] == list(sense.characteristic)
        assert [(p["x"], p["y"]) for p in answer["map"]] == [
            tuple(p) for p in points.points.tolist()
        ]
        assert [p["sense"] for p in answer["map"]] == points.senses.tolist()
        assert [tuple(p["words"]) for p in answer["map"]] == [use.words for use in points.uses]


@pytest.mark.parametrize("word", ["Bank", "银行", "%E9%93%B6%E8%A1%8C", "1/2", "1%2F2"])
def test_a_word_is_found_however_it_is_written(client: TestClient, word: str):
    assert client.get(f"/senses/{word}").json()["n_uses"] in (1, 16)


def test_senses_of_other_words_and_layers_are_refused(client: TestClient):
    assert "'zebra' is not a word" in problem(client.get("/senses/zebra"), 404)
    assert "layer is 3" in problem(client.get("/senses/bank?layer=3"), 422)
    assert "layer" in problem(client.get("/senses/bank?layer=top"), 422)


def test_a_list_says_no_more_is_counted_than_it_shows(
    index: Index, tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    """The last senses are counted just after the list was made."""
    find = WordList.find

    def find_and_wait(self: WordList, letters: str, order: Order) -> list[ListedWord]:
        found = find(self, letters, order)
        assert self._counting is not None
        self._counting.join()
        return found

    monkeypatch.setattr(WordList, "find", find_and_wait)
    with TestClient(create_app(tiny_embedder, index=index)) as client:
        answer = client.get("/index/words", params={"order": "senses", "n": 500}).json()
        assert answer["counted"] == 0
        answer = client.get("/index/words", params={"order": "senses", "n": 500}).json()
    assert answer["counted"] == 1
    assert None not in [word["senses"] for word in answer["words"]]


def test_words_of_the_index_are_listed_and_found(client: TestClient, index: Index):
    def ask(**asked: Any) -> dict[str, Any]:
        answer: dict[str, Any] = client.get("/index/words", params=asked).json()
        return answer

    first = ask(n=3)
    uses = [word["uses"] for word in first["words"]]
    assert uses == sorted(uses, reverse=True)
    assert "the" not in [word["word"] for word in ask(n=500)["words"]]  # no function words
    assert ask(letters="THE", n=1)["words"][0]["word"] == "the"  # unless they are asked for
    rest = ask(n=500)["words"]
    assert ask(start=2, n=2)["words"] == rest[2:4]
    assert first["total"] == len(rest)
    while (counted := ask(order="senses", n=500))["counted"] < 1:
        pass
    senses = [word["senses"] for word in counted["words"]]
    assert senses == sorted(senses, reverse=True)
    for word in counted["words"][:3]:
        assert word["senses"] == len(index.senses(word["word"]).senses)


def test_a_use_is_asked_for_by_its_number(client: TestClient, index: Index):
    use = index.uses("bank")[0]
    answer = client.get(f"/index/uses/{use.id}").json()
    assert (answer["words"], answer["position"]) == (list(use.words), use.position)
    assert (answer["file"], answer["before"], answer["after"]) == (None, "", "")
    assert problem(client.get("/index/uses/123456"), 404) == (
        "This server's index has no use 123456."
    )


def test_examples_are_uses_of_the_index(client: TestClient, index: Index):
    found = client.get("/index/examples").json()["examples"]
    assert {use["words"][use["position"]] for use in found} <= set(index.words)
    assert 1 < len(found) <= 6


def test_info_says_what_is_indexed(client: TestClient, index: Index):
    assert client.get("/info").json()["index"] == {
        "n_words": len({word for words in CORPUS for word in words}),
        "n_uses": sum(map(len, CORPUS)),
        "n_sentences": len(CORPUS),
        "origins": False,
        "layers": [0, 1, 2, "mix"],
    }


def test_a_server_without_index_says_so(tiny_embedder: Embedder):
    with TestClient(create_app(tiny_embedder)) as client:
        asked = {"sentence": ["a"], "position": 0}
        for answer in (client.get("/senses/a"), client.post("/neighbors", json=asked)):
            assert problem(answer, 404) == "This server has no index; start it with --index."


def test_an_index_of_another_model_is_refused(index: Index, tmp_path: Path):
    other = Embedder.load(make(tmp_path / "other", seed=1).weights, device="cpu")
    with pytest.raises(InputError, match="contains vectors of the model"):
        create_app(other, index=index)


def test_too_many_searches_are_turned_away(
    tiny_embedder: Embedder, index: Index, monkeypatch: pytest.MonkeyPatch
):
    gate, began = threading.Event(), threading.Event()
    original = Index.senses_and_map

    def slowly(self: Index, *given: Any, **named: Any) -> Any:
        began.set()
        assert gate.wait(20)
        return original(self, *given, **named)

    app = create_app(tiny_embedder, index=index, config=ServeConfig(queue_searches=1))
    with TestClient(app) as client:
        monkeypatch.setattr(Index, "senses_and_map", slowly)
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(client.get("/senses/bank").status_code)

        first = threading.Thread(target=ask)
        first.start()
        assert began.wait(20)
        others = [threading.Thread(target=ask) for _ in range(3)]
        for other in others:
            other.start()
        while len(statuses) < 2:  # of three, one may wait
            first.join(0.01)
        assert client.post("/neighbors", json={"sentence": SENTENCE, "position": 4}).is_success
        gate.set()
        for thread in (first, *others):
            thread.join()
        assert sorted(statuses) == [200, 200, 429, 429]


def test_a_word_that_no_path_can_hold_is_asked_for_by_a_query(client: TestClient):
    assert (
        client.get("/senses", params={"word": "bank"}).json() == client.get("/senses/bank").json()
    )
    assert client.get("/senses", params={"word": "."}).status_code in (200, 404)
