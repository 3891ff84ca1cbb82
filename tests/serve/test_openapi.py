"""The document tells the truth: schemathesis sends what it allows and what it forbids, and every
answer must be one that it names.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from elmore.embedder import Embedder
from elmore.search.index import Index
from elmore.serve.app import create_app
from elmore.serve.config import ServeConfig
from tests.serve.running import running
from tests.serve.test_search_routes import index  # noqa: F401

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

KEY = "sesame"
OPERATIONS = [
    "GET /health",
    "GET /index/examples",
    "GET /index/uses/{number}",
    "GET /index/words",
    "GET /info",
    "GET /metrics",
    "GET /senses",
    "GET /senses/{word}",
    "POST /embed",
    "POST /neighbors",
    "POST /similarity",
    "POST /substitutes",
    "POST /v1/embeddings",
    "POST /words",
]
EXAMPLES = 20
# Rules over two fields, or about the words in a text: no schema can say them, the answer does.
BETWEEN_FIELDS = re.compile(
    r"weights are those of a mix|\d+ weights are given; the model has 3|expected 3 weights|"
    r"gamma is that of a mix|"
    r"layer \d+ is asked for; the model has 0 to 2|layer is \d+, but the index keeps|"
    r"position is \d+; the sentence has \d+ words|input\.\d+: has no words|dimensions is \d+; the"
)


@pytest.fixture(scope="module")
def document(tiny_embedder: Embedder, index: Index) -> Iterator[Any]:  # noqa: F811
    config = ServeConfig.model_validate({"api_key": KEY})
    with running(create_app(tiny_embedder, index=index, config=config)) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def test_the_document_has_every_route(document: Any):
    found = [result.ok().label for result in document.get_all_operations()]
    assert sorted(found) == OPERATIONS


@pytest.mark.parametrize(
    ("label", "mode"),
    [
        (label, mode)
        for label in OPERATIONS
        for mode in schemathesis.GenerationMode
        if mode.is_positive or label != "GET /health"  # nothing can be wrong with that one
    ],
)
def test_every_answer_is_one_that_the_document_names(document: Any, label: str, mode: Any):
    method, path = label.split(" ")

    @given(case=document[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def ask(case: Any) -> None:
        answer = case.call_and_validate(
            headers={"Authorization": f"Bearer {KEY}"}, excluded_checks=[positive_data_acceptance]
        )
        if mode.is_positive and answer.status_code not in (200, 404):
            assert answer.status_code == 422, answer.text
            assert BETWEEN_FIELDS.search(answer.json()["error"]["message"]), answer.text

    ask()
