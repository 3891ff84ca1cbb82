"""The map, the senses beside it, and the comparison of two sentences."""

from collections.abc import Callable

import pytest

from elmore.embedder import Embedder
from tests.serve.page.visitor import SENTENCE, Page, ask, expect


def test_the_map_shows_a_sentence_under_the_pointer_and_a_click_asks_for_it(
    visit: Callable[..., Page],
):
    page = visit()
    ask(page, SENTENCE, "bank")
    mark = page.locator("#map path").first
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)  # under another mark or not
    expect(page.locator("#map .tip mark")).to_have_text("bank")
    shown = page.locator("#map .tip").text_content()
    mark.click(force=True)
    expect(page.locator("#sentence")).to_have_value(shown)


def spread(page: Page) -> float:
    """How far apart the leftmost and the rightmost mark are, in pixels."""
    boxes = [mark.bounding_box() for mark in page.locator("#map path").all()]
    left: float = min(box["x"] for box in boxes)
    right: float = max(box["x"] for box in boxes)
    return right - left


def test_the_map_zooms_and_shows_all_again(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    whole = spread(page)
    page.get_by_role("button", name="Zoom in").click()
    assert spread(page) == pytest.approx(1.5 * whole, rel=0.01)
    page.locator("#map").hover()
    place = page.locator("#map path").first.get_attribute("transform")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    expect(page.locator("#map path").first).not_to_have_attribute("transform", place)
    assert spread(page) > 1.6 * whole
    page.get_by_role("button", name="Show all").click()
    assert spread(page) == pytest.approx(whole, rel=0.01)


def test_two_fingers_zoom_the_map(visit: Callable[..., Page]):
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True)
    ask(page, SENTENCE, "bank")
    whole = spread(page)
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)
    for apart in (20, 40, 60):
        fingers = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        kind = "touchStart" if apart == 20 else "touchMove"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert spread(page) == pytest.approx(3 * whole, rel=0.02)
    assert page.input_value("#sentence") == SENTENCE


def test_the_map_can_be_dragged(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    page.get_by_role("button", name="Zoom in").click()
    frame, mark = page.locator("#map"), page.locator("#map path").first
    frame.scroll_into_view_if_needed()
    box, before = frame.bounding_box(), mark.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 15, middle[1] + 10, steps=5)
    page.mouse.up()
    after = mark.bounding_box()
    assert after["x"] - before["x"] == pytest.approx(15, abs=5)  # less what a click may slip
    assert page.input_value("#sentence") == SENTENCE  # a drag is no click


def test_a_sense_can_be_seen_alone(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    n_senses = page.locator("#senses .sense-name").count()
    expect(page.locator("#senses-title")).to_contain_text("One" if n_senses == 1 else str(n_senses))
    name = page.locator("#senses .sense-name").first
    name.click()
    expect(name).to_have_attribute("aria-pressed", "true")
    others = page.locator("#map path:not(.sense-0)").count()
    expect(page.locator("#map path.dim")).to_have_count(others)
    name.click()
    expect(page.locator("#map path.dim")).to_have_count(0)


def test_two_sentences_are_compared_layer_by_layer(
    visit: Callable[..., Page], tiny_embedder: Embedder
):
    page = visit()
    ask(page, SENTENCE, "bank")
    page.locator("#other").fill("The bank lent money.")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("#heat table")).to_have_count(4)
    one, two = tiny_embedder.embed([SENTENCE, "The bank lent money."])
    for layer, table in enumerate(page.locator("#heat table").all()[:3]):
        a, b = one.layers[layer, 4], two.layers[layer, 1]
        cosine = float(a @ b / (a @ a * (b @ b)) ** 0.5)
        cell = table.locator("tbody tr").nth(4).locator("td").nth(1)
        assert float(cell.text_content()) == pytest.approx(cosine, abs=0.006)
    cell.hover()
    expect(page.locator("#readout")).to_contain_text("bank × bank — layer 0 1.00")


def test_a_finger_first_shows_and_then_asks(visit: Callable[..., Page]):
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True)
    ask(page, SENTENCE, "bank")
    mark = page.locator("#map path").first
    mark.scroll_into_view_if_needed()
    mark.tap(force=True)
    expect(page.locator("#map .tip")).to_be_visible()
    assert page.input_value("#sentence") == SENTENCE
    shown = page.locator("#map .tip").text_content()
    mark.tap(force=True)
    expect(page.locator("#sentence")).to_have_value(shown)
