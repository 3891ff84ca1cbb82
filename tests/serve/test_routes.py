"""The routes, asked in-process, against the embedder itself."""

import base64
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from elmore import __version__
from elmore.embedder import Embedder
from elmore.serve.app import create_app
from elmore.serve.config import ServeConfig
from elmore.serve.vectors import NPY, NPZ

SENTENCES = ["We sat on the river bank.", ["My", "bank", "account", "."], "", "他去银行。"]
TOLERANCE = {"rtol": 0, "atol": 1e-5}  # what a batch-mate may change where there is no kernel


@pytest.fixture(scope="module")
def client(tiny_embedder: Embedder) -> Iterator[TestClient]:
    config = ServeConfig(max_words=300, max_sentences=5, max_bytes=5000)
    with TestClient(create_app(tiny_embedder, name="tiny", config=config)) as client:
        yield client


def problem(answer: Any, status: int) -> str:
    """The message of an answer that must have this status."""
    assert answer.status_code == status, answer.text
    (error,) = answer.json().values()
    assert sorted(error) == ["message", "type"]
    return str(error["message"])


# /embed and /words ------------------------------------------------------------------------------


def test_embed_gives_words_spans_and_all_layers(client: TestClient, tiny_embedder: Embedder):
    answer = client.post("/embed", json={"sentences": SENTENCES}).json()
    assert (answer["model"], answer["dim"]) == ("tiny", 16)
    for found, expected in zip(answer["sentences"], tiny_embedder.embed(SENTENCES), strict=True):
        assert found["words"] == expected.words
        assert found["spans"] == (expected.spans and [list(span) for span in expected.spans])
        if expected.words:
            np.testing.assert_allclose(found["layers"], expected.layers, **TOLERANCE)
        else:
            assert found["layers"] == [[], [], []]


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        ({"layers": 2}, [0, 0, 1]),
        ({"layers": "mix"}, [1 / 3, 1 / 3, 1 / 3]),
        ({"layers": "mix", "weights": [2, 0, -1], "gamma": 0.5}, [1, 0, -0.5]),
    ],
)
def test_embed_gives_a_layer_or_a_mix(
    client: TestClient, tiny_embedder: Embedder, asked: dict[str, Any], share: list[float]
):
    answer = client.post("/embed", json={"sentences": SENTENCES[:1], **asked}).json()
    (expected,) = tiny_embedder.embed(SENTENCES[:1])
    found = answer["sentences"][0]["layers"]
    np.testing.assert_allclose(found, [expected.mix(share)], **TOLERANCE)


def test_embed_gives_numpy_bytes_on_request(client: TestClient, tiny_embedder: Embedder):
    layers = [expected.layers for expected in tiny_embedder.embed(SENTENCES)]
    asked = {"sentences": SENTENCES}
    answer = client.post("/embed", json=asked, headers={"Accept": NPY})
    assert answer.headers["content-type"] == NPY
    lengths = [int(n) for n in answer.headers["x-sentence-lengths"].split(",")]
    assert lengths == [some.shape[1] for some in layers]
    found = np.load(io.BytesIO(answer.content))
    np.testing.assert_allclose(found, np.concatenate(layers, axis=1), **TOLERANCE)
    answer = client.post("/embed", json=asked, headers={"Accept": NPZ})
    with np.load(io.BytesIO(answer.content)) as archive:
        assert archive.files == ["0", "1", "2", "3"]
        np.testing.assert_allclose(archive["1"], layers[1], **TOLERANCE)


def test_no_sentences_are_no_vectors(client: TestClient):
    answer = client.post("/embed", json={"sentences": []})
    assert answer.json()["sentences"] == []


def test_words_are_those_the_model_would_see(client: TestClient):
    text = "He won't pay 1,000 $ — 他去银行。"
    answer = client.post("/words", json={"text": text}).json()
    assert answer["words"][:3] == ["He", "wo", "n't"]
    assert "银行" in answer["words"]
    assert [text[start:end] for start, end in answer["spans"]] == answer["words"]


# /similarity ------------------------------------------------------------------------------------


def test_similarity_is_the_cosine_of_each_layer_and_the_mix(
    client: TestClient, tiny_embedder: Embedder
):
    a, b = tiny_embedder.embed(["The bank.", ["My", "bank"]])
    weights = [0.1, 0.2, 0.7]
    asked = {"a": "The bank.", "b": ["My", "bank"], "weights": weights}
    answer = client.post("/similarity", json=asked).json()
    assert (answer["words_a"], answer["words_b"]) == (["The", "bank", "."], ["My", "bank"])
    pairs = [*zip(a.layers, b.layers, strict=True), (a.mix(weights), b.mix(weights))]
    for found, (x, y) in zip(answer["layers"], pairs, strict=True):
        lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)
        np.testing.assert_allclose(found, x @ y.T / lengths, **TOLERANCE)
    assert answer["layers"][0][1][1] == pytest.approx(1, abs=1e-6)  # layer 0 knows no context


# OpenAI's shape ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["The river bank.", ["The river bank."], [["The", "river"]]])
def test_openai_clients_get_the_mean_over_words_and_layers(
    client: TestClient, tiny_embedder: Embedder, given: Any
):
    asked = {"input": given, "model": "text-embedding-3-small", "user": "someone"}
    answer = client.post("/v1/embeddings", json=asked).json()
    (expected,) = tiny_embedder.embed([given] if isinstance(given, str) else given)
    (row,) = answer["data"]
    np.testing.assert_allclose(row["embedding"], expected.average.mean(axis=0), **TOLERANCE)
    assert (answer["object"], row["object"], row["index"]) == ("list", "embedding", 0)
    assert answer["model"] == "tiny"
    assert answer["usage"] == {"prompt_tokens": len(expected), "total_tokens": len(expected)}


def test_openai_clients_may_ask_for_base64(client: TestClient):
    inputs = ["One bank.", "Another one."]
    plain = client.post("/v1/embeddings", json={"input": inputs, "dimensions": 16}).json()
    packed = client.post(
        "/v1/embeddings", json={"input": inputs, "encoding_format": "base64"}
    ).json()
    for a, b in zip(plain["data"], packed["data"], strict=True):
        decoded = np.frombuffer(base64.b64decode(b["embedding"]), "<f4")
        np.testing.assert_allclose(decoded, a["embedding"], **TOLERANCE)


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("/embed", {}, "sentences: Field required."),
        ("/embed", {"sentences": "a b"}, "sentences: Input should be a valid list."),
        ("/embed", {"sentences": ["a", 3]}, "sentences.1: Input should be a string or a list"),
        ("/embed", {"sentences": [["a", 3]]}, "sentences.0: Word 1 should be a string."),
        ("/embed", {"sentences": [], "layers": 3}, "layer 3 is asked for; the model has 0 to 2."),
        ("/embed", {"sentences": [], "layer": 1}, "layer: Extra inputs are not permitted."),
        ("/embed", {"sentences": [], "layers": "mix", "weights": [1e9, 0, 0]}, "weights.0: "),
        ("/embed", {"sentences": [], "weights": [1, 1, 1]}, "weights are those of a mix"),
        ("/similarity", {"a": "x", "b": "y", "weights": [1]}, "1 weights are given"),
        ("/words", {"text": None}, "text: Input should be a valid string."),
        ("/v1/embeddings", {"input": [""]}, "input.0: has no words"),
        ("/v1/embeddings", {"input": []}, "input: List should have at least 1 item"),
        ("/v1/embeddings", {"input": [1, 2]}, "input.0: Input should be a string or a list"),
        ("/v1/embeddings", {"input": "a", "dimensions": 8}, "dimensions is 8; the model's"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_said_in_one_line(
    client: TestClient, path: str, asked: dict[str, Any], said: str
):
    message = problem(client.post(path, json=asked), 422)
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 422, "The body should be a JSON object"),
        (b"[]", 422, "The body should be a JSON object"),
        (b'{"text": ', 422, "The body is not JSON: Expecting value at character 9."),
        (b'{"text": NaN}', 422, "text: Input should be a valid string."),
        (b'{"text": "\\ud800"}', 422, "text: Input has half of a surrogate pair."),
        (b'{"text": "\xff"}', 400, "The body cannot be read"),
        (b'{"text": ' + b"[" * 4900, 400, "The body cannot be read"),
        (b'{"text": ' + b"1" * 4900 + b"}", 400, "The body cannot be read"),
    ],
)
def test_a_body_that_is_no_request_is_refused(
    client: TestClient, body: bytes, status: int, said: str
):
    headers = {"Content-Type": "application/json"}
    assert said in problem(client.post("/words", content=body, headers=headers), status)


def test_a_form_is_told_how_to_send_json(client: TestClient):
    assert "application/json" in problem(client.post("/words", data={"text": "a"}), 422)


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("/embed", {"sentences": ["a"] * 6}, "6 sentences or more; at most 5 are taken."),
        ("/embed", {"sentences": ["a " * 200, "a " * 101]}, "301 words or more; at most 300"),
        ("/words", {"text": "a " * 301}, "301 words or more; at most 300 are taken."),
        ("/similarity", {"a": "a " * 299, "b": ["a", "b"]}, "301 words or more"),
        ("/v1/embeddings", {"input": ["a"] * 6}, "6 sentences or more"),
        ("/words", {"text": "a" * 5000}, "bytes; at most 5,000 are taken."),
    ],
)
def test_what_is_too_large_is_refused(
    client: TestClient, path: str, asked: dict[str, Any], said: str
):
    assert said in problem(client.post(path, json=asked), 413)


def test_two_sentences_with_too_many_pairs_are_refused(tiny_embedder: Embedder):
    with TestClient(create_app(tiny_embedder)) as client:
        answer = client.post("/similarity", json={"a": ["w"] * 257, "b": ["w"] * 256})
    assert "65,792 pairs of words; at most 65,536" in problem(answer, 413)


def test_other_paths_and_methods_are_refused_in_the_same_shape(client: TestClient):
    assert problem(client.get("/nothing"), 404) == "Not Found."
    answer = client.get("/embed")
    assert problem(answer, 405) == "Method Not Allowed."
    assert answer.headers["allow"] == "POST"


def test_a_bug_is_answered_too_and_hides_its_details(
    tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    app = create_app(tiny_embedder)

    def broken(sentences: list[list[str]]) -> None:
        raise ZeroDivisionError("secret")

    with TestClient(app, raise_server_exceptions=False) as client:
        monkeypatch.setattr(app.state.server.batcher, "_embed", broken)
        message = problem(client.post("/embed", json={"sentences": ["a"]}), 500)
        assert message == "The server failed; its log says how."
        monkeypatch.undo()
        assert client.post("/embed", json={"sentences": ["a"]}).status_code == 200
        metrics = client.get("/metrics").text
    assert 'elmore_requests_total{route="/embed",status="500"} 1.0' in metrics


# How the server is ------------------------------------------------------------------------------


def test_info_names_the_model_and_its_limits(client: TestClient, tiny_embedder: Embedder):
    assert client.get("/info").json() == {
        "name": "tiny",
        "dim": 16,
        "n_layers": 3,
        "context_free": True,
        "fingerprint": tiny_embedder.fingerprint,
        "precision": "float32",
        "version": __version__,
        "limits": {"bytes": 5000, "sentences": 5, "words": 300},
        "index": None,
        "substitutes": False,
        "meaning": False,
    }


def test_metrics_count_answers_by_route_and_status(tiny_embedder: Embedder):
    with TestClient(create_app(tiny_embedder)) as client:
        client.post("/embed", json={"sentences": ["a b", "c"]})
        client.post("/embed", json={})
        client.get("/senses/anything")
        for path in ("/a", "/b"):
            client.get(path)
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    values = dict(re.findall(r"^(elmore_\S+) (\S+)$", answer.text, re.MULTILINE))
    assert values['elmore_requests_total{route="/embed",status="200"}'] == "1.0"
    assert values['elmore_requests_total{route="/embed",status="422"}'] == "1.0"
    assert values['elmore_requests_total{route="other",status="404"}'] == "2.0"
    assert values["elmore_batch_words_sum"] == "3.0"
    assert values["elmore_queued_words"] == "0.0"
    assert "process_resident_memory_bytes" in answer.text


def test_a_key_is_asked_for_where_it_should_be(tiny_embedder: Embedder):
    config = ServeConfig.model_validate({"api_key": "sesame"})
    with TestClient(create_app(tiny_embedder, config=config)) as client:
        for path in ("/info", "/metrics", "/senses/bank", "/nothing"):
            assert "Authorization: Bearer" in problem(client.get(path), 401)
        for path in ("/health", "/", "/assets/index.html", "/openapi.json"):
            assert client.get(path).status_code == 200
        headers = {"Authorization": "Bearer sesame"}
        assert client.get("/info", headers=headers).status_code == 200
        problem(client.get("/info", headers={"Authorization": "Bearer Sesame"}), 401)


def test_the_page_is_served_and_nothing_beside_it(client: TestClient):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/..%2fapp.py"):
        problem(client.get(path), 404)


def test_a_list_that_is_wrong_throughout_is_told_once(tiny_embedder: Embedder):
    with TestClient(create_app(tiny_embedder)) as client:
        for path, field in (("/embed", "sentences"), ("/v1/embeddings", "input")):
            answer = client.post(path, json={field: [1] * 100_000})
            assert answer.status_code == 422
            assert len(answer.content) < 1000


# What the model cannot read ---------------------------------------------------------------------

CHINESE = [["苹果", "和", "银行", "bank"]]
ONCE_WARNED = pytest.mark.filterwarnings("ignore:small-en cannot read")  # by the embedder


@pytest.fixture(scope="module")
def english() -> Iterator[TestClient]:
    with TestClient(create_app(Embedder.load("small-en"), name="small-en")) as client:
        yield client


@ONCE_WARNED
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/embed", {"sentences": CHINESE}),
        ("/similarity", {"a": CHINESE[0], "b": CHINESE[0]}),
        ("/v1/embeddings", {"input": CHINESE}),
        ("/words", {"text": "苹果 和 银行 bank"}),
    ],
)
def test_an_answer_says_what_the_model_cannot_read(
    english: TestClient, path: str, asked: dict[str, Any]
):
    said = english.post(path, json=asked).json()["unreadable"]
    assert said["share"] == 0.75
    assert said["message"].startswith("small-en cannot read 75% of the words (苹果, 和, 银行)")


@ONCE_WARNED
def test_the_share_is_a_header_too_for_numpy(english: TestClient):
    for accept in ("application/json", NPY, NPZ):
        headers = {"Accept": accept}
        answer = english.post("/embed", json={"sentences": CHINESE}, headers=headers)
        assert answer.headers["x-unreadable-share"] == "0.750"


@ONCE_WARNED
def test_what_the_model_can_read_is_not_mentioned(english: TestClient, client: TestClient):
    readable = "The river bank of 上海 is long .".split()
    for server, words in ((english, readable), (client, CHINESE[0])):
        answer = server.post("/embed", json={"sentences": [words]})
        assert answer.json()["unreadable"] is None
        assert "x-unreadable-share" not in answer.headers
