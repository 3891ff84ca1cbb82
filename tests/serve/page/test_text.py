"""An index of text files on the page: places, passages, spacing, words and examples of the text."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from elmore.embedder import Embedder
from elmore.files.sentence_files import SentenceFiles
from elmore.search.index import Index
from tests.serve.page.visitor import PLACES, SENTENCE, THINGS, Page, ask, expect, settle

TEXT = [
    *(f"“They sat on the bank of the {place},” she said. It was late." for place in PLACES),
    *(f"The bank didn't lend her the {thing} (at 5%). Why not?" for thing in THINGS),
    "他去银行存钱。银行很远。",
]


@pytest.fixture(scope="module")
def text_address(
    serve: Callable[..., str], tiny_embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> str:
    folder = tmp_path_factory.mktemp("text")
    (folder / "harbor.txt").write_text("\n\n".join(TEXT), encoding="utf-8")
    files = SentenceFiles([folder / "harbor.txt"], tokenize=True)
    return serve(Index.build(files, tiny_embedder, folder / "index", keep="all"))


def test_a_click_opens_the_paragraph_and_says_where_it_stands(
    visit: Callable[..., Page], text_address: str
):
    page = visit(at=text_address)
    ask(page, SENTENCE, "bank")
    page.locator("#sort").select_option("place")
    line = page.locator("#uses .use").first
    expect(line).to_have_text(TEXT[0].removesuffix(" It was late."))  # spaced as in the file
    expect(page.locator("#uses .passage").first).to_be_hidden()
    line.click()
    opened = page.locator("#uses .passage").first
    expect(opened.locator(".context")).to_have_text(TEXT[0])
    expect(opened.locator(".place")).to_have_text("harbor.txt, line 1")
    expect(opened.locator("mark")).to_have_text("bank")
    line.click()
    expect(opened).to_be_hidden()
    page.locator("#uses .use").nth(1).click()
    expect(page.locator("#uses .place").nth(1)).to_have_text("harbor.txt, line 3")


def test_the_saved_list_has_places(visit: Callable[..., Page], text_address: str, tmp_path: Path):
    page = visit(at=text_address)
    ask(page, SENTENCE, "bank")
    page.locator("#sort").select_option("place")
    with page.expect_download() as saved:
        page.locator("#csv").click()
    saved.value.save_as(tmp_path / "uses.csv")
    text = (tmp_path / "uses.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [Path(row["file"]).name for row in rows] == ["harbor.txt"] * 10
    assert [int(row["line"]) for row in rows] == sorted(int(row["line"]) for row in rows)
    assert {row["left"] for row in rows} <= {"“They sat on the", "The"}


def test_the_map_is_saved_as_a_picture(visit: Callable[..., Page], text_address: str):
    page = visit(at=text_address)
    ask(page, SENTENCE, "bank")
    with page.expect_download() as saved:
        page.locator("#png").click()
    assert saved.value.suggested_filename == "map-of-bank.png"
    data = Path(saved.value.path()).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 5000  # marks are drawn, not an empty sheet


def test_words_are_browsed_and_searched_and_one_is_looked_at(
    visit: Callable[..., Page], text_address: str
):
    page = visit(at=text_address)
    words = page.locator("#vocabulary .word > span")
    expect(words.first).to_have_text("bank")  # the most frequent one that is no function word
    expect(page.locator("#vocabulary .word").first).to_contain_text("16")
    page.locator("#letters").fill("LA")
    expect(words).to_have_text(["late", "lake", "village"])
    page.locator("#order").select_option("senses")
    page.locator("#letters").fill("银")
    expect(words).to_have_text(["银行"])
    expect(page.locator("#found")).to_have_text("1 word")  # all senses are counted by now
    page.locator("#letters").fill("bank")
    expect(words.first).to_have_text("bank")  # the list follows the letters after a moment
    page.locator("#vocabulary .word").first.click()
    settle(page)
    expect(page.locator("#words [aria-pressed=true]")).to_have_text("bank")
    expect(page.locator("#start")).to_be_hidden()


def test_the_examples_are_from_the_text(visit: Callable[..., Page], text_address: str):
    page = visit(at=text_address)
    examples = page.locator("#start .use")
    expect(examples.first).to_be_visible()
    shown = examples.all_text_contents()
    assert 4 <= len(shown) <= 6  # two of each word, and every sentence once
    assert all(any(text in line for line in TEXT) for text in shown)
    examples.first.click()
    settle(page)
    expect(page.locator("#sentence")).to_have_value(shown[0])


def test_an_index_without_places_says_so(visit: Callable[..., Page]):
    page = visit()
    ask(page, SENTENCE, "bank")
    expect(page.locator("#sort [value=place]")).to_be_hidden()
    page.locator("#uses .use").first.click()
    expect(page.locator("#uses .place").first).to_contain_text("does not say where this stands")


def test_the_map_is_beside_the_list_where_there_is_room(
    visit: Callable[..., Page], text_address: str
):
    page = visit(at=text_address, viewport={"width": 1280, "height": 800})
    ask(page, SENTENCE, "bank")
    uses, map = (page.locator(part).bounding_box() for part in ("#uses", "#map"))
    assert map["x"] >= uses["x"] + uses["width"]
    assert map["y"] < uses["y"] + uses["height"]
    assert map["y"] + map["height"] < uses["y"] + 700


def test_a_sense_without_words_of_its_own_is_headed_by_its_best_example(
    visit: Callable[..., Page],
    serve: Callable[..., str],
    tiny_embedder: Embedder,
    tmp_path: Path,
):
    """No word stands beside two of the uses, so none is characteristic."""
    text = [[f"a{place}", "bank", f"b{place}"] for place in PLACES[:4]]
    page = visit(at=serve(Index.build(text, tiny_embedder, tmp_path / "index", keep="all")))
    ask(page, SENTENCE, "bank")
    heading = page.locator("#senses .sense-name strong").first.text_content()
    assert heading in {f"“{' '.join(words)}”" for words in text}
