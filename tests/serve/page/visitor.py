"""What somebody does on the page and sees there; importing it skips where playwright is absent."""

from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("faiss", reason="the extra `search` is not installed")

Page = Any
PATIENCE = 30_000
"""Milliseconds, for a machine with much else to do; an answer takes some tens."""

PLACES = "river lake stream canal valley castle garden village".split()
THINGS = "money loan account savings cheque credit deposit fortune".split()
CORPUS = [
    *(f"They sat on the grassy bank of the {place} and ate .".split() for place in PLACES),
    *(f"The bank lent her the {thing} at a high rate .".split() for thing in THINGS),
    *(["他", "去", "银行", "存", thing, "。"] for thing in ("钱", "款", "金", "票")),
    ["A", "<img", "src=x", "onerror=alert(1)>", "bank", "."],
]
SENTENCE = "We walked along the bank to the old mill."


def choose(page: Page, sentence: str, word: str) -> None:
    page.locator("#sentence").fill(sentence)
    page.keyboard.press("Enter")
    page.locator("#words").get_by_role("button", name=word, exact=True).click()


def ask(page: Page, sentence: str, word: str) -> None:
    choose(page, sentence, word)
    settle(page)


def settle(page: Page) -> None:
    """Until the neighbours, the map and the comparison that were asked for are there."""
    expect(page.locator("#uses li").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def switch_layer(page: Page, layer: str) -> None:
    page.locator("#layers").get_by_role("radio", name=layer, exact=True).check()
    settle(page)


def uses(page: Page) -> list[tuple[str, str]]:
    """What the list of nearest uses shows: scores and sentences."""
    scores = page.locator("#uses .score").all_text_contents()
    return list(zip(scores, page.locator("#uses .use").all_text_contents(), strict=True))
