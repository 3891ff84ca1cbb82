"""The main path: type, click, switch, share."""

from collections.abc import Callable

from elmore.embedder import Embedder
from elmore.search.index import Index
from tests.serve.page.visitor import SENTENCE, Page, ask, choose, expect, settle, switch_layer, uses


def test_a_typed_sentence_becomes_words_and_a_click_shows_the_nearest_uses(
    visit: Callable[..., Page], index: Index, tiny_embedder: Embedder
):
    page = visit()
    ask(page, SENTENCE, "bank")
    words = page.locator("#words button").all_text_contents()
    assert words == ["We", "walked", "along", "the", "bank", "to", "the", "old", "mill", "."]
    found = index.neighbors(words, 4, 10, layer=2, embedder=tiny_embedder)
    assert [score for score, _ in uses(page)] == [f"{near.score:.2f}" for near in found]
    assert page.locator("#uses mark").all_text_contents() == ["bank"] * 10
    expect(page.locator("#words [aria-pressed=true]")).to_have_text("bank")
    assert page.locator("#static li").count() > 0
    assert page.locator("#map path").count() == 17  # every use of the word in CORPUS


def test_the_layer_switch_changes_the_neighbours(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    seen = {}
    for layer in ("2", "1", "mix", "0"):
        switch_layer(page, layer)
        seen[layer] = uses(page)
    assert seen["2"] != seen["1"] != seen["mix"] != seen["2"]
    assert {score for score, _ in seen["0"]} == {"1.00"}  # one spelling, one vector


def test_the_sliders_of_the_mix_change_the_neighbours(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    expect(page.locator("#weights")).to_be_hidden()
    switch_layer(page, "1")
    of_layer_1 = uses(page)
    switch_layer(page, "mix")
    expect(page.locator("#weights output")).to_have_text(["33%"] * 3)
    for name in ("layer 0", "layer 2"):
        page.get_by_role("slider", name=name).fill("0")
    expect(page.locator("#weights output")).to_have_text(["0%", "100%", "0%"])
    page.wait_for_url("**mix=0+1+0**")
    settle(page)
    assert uses(page) == of_layer_1


def test_all_words_can_be_looked_among(visit: Callable[..., Page]):
    page = visit(refused=True)
    choose(page, SENTENCE, "walked")
    expect(page.locator("#none")).to_contain_text("“walked” is not in the index")
    page.get_by_role("button", name="Look among all words").click()
    settle(page)
    assert page.locator("#uses .use").count() == 10
    expect(page.locator("#scope input:checked + span")).to_have_text("all words")


def test_a_neighbor_that_is_opened_becomes_the_query(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    _, first = uses(page)[0]
    page.locator("#uses .use").first.click()
    page.locator("#uses .passage").first.get_by_role("button", name="Make it the query").click()
    expect(page.locator("#sentence")).to_have_value(first)
    settle(page)
    assert first not in [text for _, text in uses(page)]  # a query is no neighbour of its own
    expect(page.locator("#map circle.query")).to_have_count(1)


def test_a_shared_link_restores_the_view_and_back_goes_back(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    before = uses(page)
    switch_layer(page, "1")
    page.locator("#other").fill("He robbed the bank.")
    page.keyboard.press("Enter")
    expect(page.locator("#heat table")).to_have_count(4)

    other = visit(page.url.removeprefix(page.url.split("#")[0]))
    settle(other)
    assert uses(other) == uses(page) != before
    assert other.input_value("#sentence") == SENTENCE
    expect(other.locator("#words [aria-pressed=true]")).to_have_text("bank")
    expect(other.locator("#layers input:checked + span")).to_have_text("1")
    expect(other.locator("#heat table")).to_have_count(4)

    page.go_back()
    page.go_back()
    settle(page)
    assert uses(page) == before
    expect(page.locator("#layers input:checked + span")).to_have_text("2")


def test_the_link_can_be_copied(visit: Callable[..., Page]):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    ask(page, SENTENCE, "bank")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#status")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
