"""The line of substitutes under a clicked word: shown by a model that predicts, else hidden."""

from collections.abc import Callable, Iterator

import pytest

from elmore.embedder import Embedder
from elmore.predictor.predictor import Predictor
from tests.serve.page.visitor import SENTENCE, Page, ask, choose, expect
from tests.tiny_bert import tiny_bert

WORDS = "we sat on the river bank .".split()


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(tiny_bert(heads=True), device="cpu")


@pytest.fixture(scope="module")
def predicting(embedder: Embedder) -> Iterator[str]:
    from elmore.serve.app import create_app
    from tests.serve.running import running

    with running(create_app(embedder, name="bert")) as address:
        yield address


def shown(page: Page) -> list[tuple[str, str]]:
    line = page.locator("#substitutes li")
    expect(line).to_have_count(8)
    expect(page.locator("#substitutes")).to_have_attribute("aria-busy", "false")
    scores = line.locator(".score").all_text_contents()
    return list(zip(line.locator(".word").all_text_contents(), scores, strict=True))


def percent(p: float) -> str:
    return "<0.1%" if p < 0.001 else f"{100 * p:.{1 if p < 0.1 else 0}f}%"


def test_a_clicked_word_has_its_line(
    visit: Callable[..., Page], predicting: str, embedder: Embedder
):
    predictor = Predictor.of(embedder)
    assert predictor is not None
    page = visit(at=predicting)
    expect(page.locator("#substitutes")).to_be_hidden()
    for word in ("bank", "river"):
        choose(page, "we sat on the river bank.", word)
        (wanted,) = predictor.substitutes([(WORDS, WORDS.index(word))], top=8)
        expect(page.locator("#substitutes li").first).to_contain_text(wanted[0].word)
        assert shown(page) == [(one.word, percent(one.probability)) for one in wanted]


def test_it_speaks_two_languages(visit: Callable[..., Page], predicting: str):
    page = visit(at=predicting)
    choose(page, "we sat on the river bank.", "bank")
    expect(page.locator("#substitutes h2")).to_have_text("Words that would fit here")
    before = shown(page)
    page.locator("#language").click()
    expect(page.locator("#substitutes h2")).to_have_text("此处可能的词")
    assert shown(page) == before


def test_it_is_hidden_where_the_model_cannot_predict(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    expect(page.locator("#substitutes")).to_be_hidden()
