"""When things go wrong: hostile text, a busy or absent server, keys, no index."""

from collections.abc import Callable
from typing import Any

import pytest

from elmore.embedder import Embedder
from elmore.search.index import Index
from elmore.serve.app import PAGE, create_app
from tests.serve.page.visitor import SENTENCE, Page, ask, choose, expect, settle, uses
from tests.serve.running import running


def test_markup_in_a_corpus_stays_text(visit: Callable[..., Page]):
    page = visit()
    ask(page, "A <img src=x onerror=alert(1)> bank .", "bank")
    assert "A <img src=x onerror=alert(1)> bank." in [text for _, text in uses(page)]
    assert page.locator("img").count() == 0


def test_the_page_holds_no_markup_maker_and_no_foreign_address():
    for path in PAGE.iterdir():
        source = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacent", "://", " style=", "eval("):
            assert forbidden not in source, f"{path.name} has {forbidden}"


def test_a_busy_server_is_waited_for(visit: Callable[..., Page]):
    page = visit(refused=True)
    busy = iter([True])

    def refuse_once(route: Any) -> None:
        if next(busy, False):
            route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": {}})
        else:
            route.continue_()

    page.route("**/neighbors", refuse_once)
    choose(page, SENTENCE, "bank")
    expect(page.locator("#status")).to_have_text("The server is busy. Trying again in 1 s.")
    settle(page)
    expect(page.locator("#status")).to_have_text("")


def test_a_server_that_is_gone_is_told_of_and_can_be_tried_again(visit: Callable[..., Page]):
    page = visit(refused=True)
    page.route("**/neighbors", lambda route: route.abort())
    choose(page, SENTENCE, "bank")
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    page.unroute("**/neighbors")
    page.get_by_role("button", name="Try again").click()
    settle(page)
    expect(page.locator("#notice")).to_be_hidden()


def test_a_refusal_is_shown_in_the_servers_words(visit: Callable[..., Page]):
    page = visit(refused=True)
    told = {"error": {"message": "layer 9 is not there", "type": "invalid"}}
    page.route("**/neighbors", lambda route: route.fulfill(status=422, json=told))
    choose(page, SENTENCE, "bank")
    expect(page.locator("#notice")).to_contain_text("layer 9 is not there")


@pytest.fixture(scope="module")
def locked_address(serve: Callable[..., str], index: Index) -> str:
    return serve(index, api_key="open-sesame")


def test_a_key_is_asked_for_until_it_is_right_and_kept_out_of_links(
    visit: Callable[..., Page], locked_address: str
):
    page = visit(at=locked_address, refused=True)
    for key in ("guess", "open-sesame"):
        page.locator("#key").fill(key)
        page.keyboard.press("Enter")
        if key == "guess":
            expect(page.locator("#key-wrong")).to_be_visible()
    expect(page.locator("#about")).to_contain_text("tiny")
    ask(page, SENTENCE, "bank")
    assert "sesame" not in page.url


def test_a_key_in_the_link_is_taken_out_of_the_address(
    visit: Callable[..., Page], locked_address: str
):
    page = visit("#key=open-sesame&text=A+bank.&at=1", at=locked_address)
    settle(page)
    assert "sesame" not in page.url
    expect(page.locator("#words [aria-pressed=true]")).to_have_text("bank")


def test_a_reader_without_a_key_is_told_so(visit: Callable[..., Page], locked_address: str):
    page = visit(at=locked_address, refused=True)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#notice")).to_contain_text("Without a key")


def test_without_an_index_two_sentences_can_still_be_compared(
    visit: Callable[..., Page], serve: Callable[..., str]
):
    page = visit(at=serve(None))
    expect(page.locator("#status")).to_contain_text("no index")
    page.locator("#sentence").fill(SENTENCE)
    page.keyboard.press("Enter")
    page.locator("#other").fill("The bank lent money.")
    page.keyboard.press("Enter")
    expect(page.locator("#heat table")).to_have_count(4)
    expect(page.locator("#uses")).to_be_hidden()


def test_a_slow_answer_does_not_take_the_focus_from_who_has_moved_on(visit: Callable[..., Page]):
    page = visit("#text=A+bank.&at=1")
    settle(page)
    held: list[Any] = []
    page.route("**/words", lambda route: held.append(route))
    page.locator("#sentence").fill("The river bank.")
    page.keyboard.press("Enter")
    page.locator("#other").fill("The bank lent")
    page.wait_for_function("() => true")
    (route,) = held
    route.continue_()
    expect(page.locator("#words")).to_contain_text("river")
    page.keyboard.type(" money.")
    expect(page.locator("#other")).to_have_value("The bank lent money.")


@pytest.mark.filterwarnings("ignore:small-en cannot read")
def test_a_text_that_the_model_cannot_read_is_told_in_one_line(visit: Callable[..., Page]):
    app = create_app(Embedder.load("small-en"), name="small-en")
    with running(app) as address:
        page = visit(at=address)
        for sentence, hidden in (("苹果 和 银行 。", False), (SENTENCE, True)):
            page.locator("#sentence").fill(sentence)
            page.keyboard.press("Enter")
            expect(page.locator("#words button").first).to_have_text(sentence.split()[0])
            expect(page.locator("#unreadable")).to_be_visible(visible=not hidden)
            if not hidden:
                expect(page.locator("#unreadable")).to_contain_text("The model cannot read")
                page.get_by_role("button", name="中文").click()
                expect(page.locator("#unreadable")).to_contain_text("模型读不懂其中")
                page.get_by_role("button", name="English").click()
