"""For everyone: keyboard, phone, dark and light, Chinese."""

import re
from collections.abc import Callable

import pytest

from elmore.serve.app import PAGE
from tests.serve.page.visitor import SENTENCE, Page, ask, expect, settle, uses


def test_everything_can_be_done_with_the_keyboard(visit: Callable[..., Page]):
    page = visit()
    page.locator("#sentence").focus()
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Enter")
    expect(page.locator("#words button")).to_have_count(10)
    expect(page.locator("#words button").first).to_be_focused()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settle(page)
    expect(page.locator("#words [aria-pressed=true]")).to_have_text("bank")
    expect(page.locator("#words [aria-pressed=true]")).to_be_focused()
    of_layer_2 = uses(page)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    settle(page)
    expect(page.locator("#layers input:checked + span")).to_have_text("1")
    assert uses(page) != of_layer_2

    page.locator("#map path[tabindex='0']").focus()
    start = page.evaluate("document.activeElement.getAttribute('aria-label')")
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
        if page.evaluate("document.activeElement.getAttribute('aria-label')") != start:
            break
    else:
        pytest.fail("no arrow key leads to another mark")
    shown = page.locator("#map .tip").text_content()
    page.keyboard.press("Enter")
    expect(page.locator("#sentence")).to_have_value(shown)


def test_focus_is_visible_and_every_control_has_a_name(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    style = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(style) == "solid"
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, [role=button], [role=toolbar]')]
        .filter((node) => !(node.ariaLabel || node.textContent.trim() || node.labels?.length))
        .map((node) => node.outerHTML)"""
    )
    assert nameless == []


def fits(page: Page) -> bool:
    """Whether nothing sticks out to the side."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width <= page.viewport_size["width"]


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_nothing_sticks_out_on_a_phone(visit: Callable[..., Page], language: str):
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True, locale=language)
    assert fits(page)
    ask(page, SENTENCE + " " + "Donaudampfschifffahrtsgesellschaft" * 3, "bank")
    page.locator("#layers label").last.click()
    page.locator("#uses .compare").first.click()
    expect(page.locator("#heat table")).to_have_count(4)
    settle(page)
    assert fits(page)


def brightness(page: Page, property: str) -> float:
    colour = page.evaluate(f"getComputedStyle(document.body).{property}")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_light_or_dark_as_the_reader_has_it(visit: Callable[..., Page], scheme: str):
    page = visit(color_scheme=scheme)
    paper, ink = brightness(page, "backgroundColor"), brightness(page, "color")
    assert (paper > 0.9 and ink < 0.2) if scheme == "light" else (paper < 0.2 and ink > 0.8)


def test_the_button_switches_between_light_and_dark_and_is_remembered(visit: Callable[..., Page]):
    page = visit(color_scheme="light")
    page.get_by_role("button", name="Light or dark").click()
    assert brightness(page, "backgroundColor") < 0.2
    page.reload()
    assert brightness(page, "backgroundColor") < 0.2
    page.get_by_role("button", name="Light or dark").click()
    assert brightness(page, "backgroundColor") > 0.9


def test_chinese_text_is_split_and_found(visit: Callable[..., Page]):
    pytest.importorskip("jieba", reason="the extra `zh` is not installed")
    page = visit(locale="zh-CN")
    expect(page.locator("#ask button")).to_have_text("显示")
    ask(page, "我在银行存钱。", "银行")
    assert "".join(page.locator("#words button").all_text_contents()) == "我在银行存钱。"
    assert page.locator("#uses mark").all_text_contents() == ["银行"] * 4
    assert "他去银行存钱。" in [text for _, text in uses(page)]  # set without spaces


def test_the_interface_speaks_two_languages_and_remembers_which(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    expect(page.locator("#uses-title")).to_have_text("Nearest uses of “bank”")
    page.get_by_role("button", name="中文").click()
    expect(page.locator("#uses-title")).to_have_text("“bank”最相近的用法")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.reload()
    settle(page)
    expect(page.locator("#uses-title")).to_have_text("“bank”最相近的用法")
    assert "undefined" not in page.content()


def test_both_languages_say_the_same_things():
    source = (PAGE / "language.js").read_text(encoding="utf-8")
    tables = re.findall(r"^const [A-Z]+ = \{\n(.*?)^\};$", source, re.MULTILINE | re.DOTALL)
    english, chinese = (re.findall(r"^  (\w+): ", table, re.MULTILINE) for table in tables)
    assert english == chinese
    used = "".join(path.read_text(encoding="utf-8") for path in PAGE.iterdir())
    for key in set(english) - {"code"}:
        assert re.search(rf'say\.{key}\b|data-say[\w-]*="{key}"', used), f"{key} is never said"
