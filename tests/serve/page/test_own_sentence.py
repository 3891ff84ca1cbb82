"""The reader's own sentence on the map, more uses, their order, and what can be taken away."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from tests.serve.page.visitor import CORPUS, SENTENCE, Page, ask, expect, settle, uses


def test_a_sentence_of_ones_own_is_on_the_map_with_its_sense(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    expect(page.locator("#map polygon.own")).to_have_count(1)
    senses = page.locator("#senses li").count()
    if senses > 1:  # the vote is shown where there is something to vote on
        expect(page.locator("#own")).to_contain_text("Your sentence: sense")
    indexed = " ".join(CORPUS[0])
    ask(page, indexed, "bank")
    expect(page.locator("#map polygon.own")).to_have_count(0)  # it is one of the uses itself
    expect(page.locator("#map circle.query")).to_have_count(1)


def test_more_uses_are_shown_until_there_are_no_more(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    expect(page.locator("#uses li")).to_have_count(10)
    page.get_by_role("button", name="More uses").click()
    expect(page.locator("#uses li")).to_have_count(17)
    expect(page.locator("#more")).to_be_hidden()
    ask(page, "She went to the bank for a loan .", "bank")
    expect(page.locator("#uses li")).to_have_count(10)


def test_a_list_that_is_scrolled_to_its_end_goes_on(visit: Callable[..., Page]):
    page = visit(viewport={"width": 1280, "height": 700})
    ask(page, SENTENCE, "bank")
    lines = page.locator("#uses ol")
    lines.evaluate("(list) => { list.style.maxHeight = '5rem'; list.scrollTo(0, 1e6); }")
    expect(page.locator("#uses li")).to_have_count(17)


def test_uses_are_sorted_by_similarity_or_by_sense(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    first = uses(page)
    assert first == sorted(first, key=lambda use: -float(use[0]))
    page.locator("#sort").select_option("sense")
    settle(page)
    signs = [sign.get_attribute("class") for sign in page.locator("#uses .sign svg").all()]
    assert signs == sorted(signs)
    assert sorted(uses(page)) == sorted(first)


def test_what_is_listed_can_be_taken_away(visit: Callable[..., Page], tmp_path: Path):
    page = visit()
    ask(page, SENTENCE, "bank")
    listed = uses(page)
    for kind in ("csv", "json"):
        with page.expect_download() as saved:
            page.locator(f"#{kind}").click()
        assert saved.value.suggested_filename == f"uses-of-bank.{kind}"
        saved.value.save_as(tmp_path / f"uses.{kind}")
    text = (tmp_path / "uses.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["word"] for row in rows] == ["bank"] * 10
    assert [f"{float(row['cosine']):.2f}" for row in rows] == [score for score, _ in listed]
    assert {row["sense"] for row in rows} <= {"1", "2", "3", "4", "5", "6"}
    found = json.loads((tmp_path / "uses.json").read_text(encoding="utf-8"))
    assert found["query"]["words"][found["query"]["position"]] == "bank"
    assert len(found["uses"]) == 10
    assert all(use["words"][use["position"]] == "bank" for use in found["uses"])


def test_it_is_said_in_chinese_too(visit: Callable[..., Page]):
    page = visit(locale="zh-CN")
    ask(page, SENTENCE, "bank")
    expect(page.locator("#more")).to_have_text("更多用法")
    expect(page.locator("#sort option").first).to_have_text("相似度")
