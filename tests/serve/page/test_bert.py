"""The page over a BERT, whose layer 0 is not free of context."""

from collections.abc import Callable, Iterator

import pytest

from elmore.embedder import Embedder
from elmore.search.index import Index
from tests.serve.page.visitor import CORPUS, SENTENCE, Page, ask, expect
from tests.tiny_bert import tiny_bert


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from elmore.serve.app import create_app
    from tests.serve.running import running

    embedder = Embedder(tiny_bert(max_positions=60), device="cpu")
    index = Index.build(CORPUS, embedder, tmp_path_factory.mktemp("bert") / "index", keep="all")
    with running(create_app(embedder, index=index, name="bert")) as address:
        yield address


def test_layer_0_is_described_as_it_is(visit: Callable[..., Page], bert: str):
    hints = []
    for page in (visit(), visit(at=bert)):
        ask(page, SENTENCE, "bank")
        first = page.locator("#layers label").filter(has_text="0")
        expect(first).to_have_count(1)
        hints.append(first.get_attribute("title"))
    assert hints == [
        "spelling only, no context",
        "spelling and place in the sentence, no other words",
    ]
