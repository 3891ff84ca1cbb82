"""The layout's promises, and both files as written."""

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from elmore.demo.ambiguous_words import Language, read_uses
from elmore.demo.drawing import html_page, svg, write_html, write_png
from elmore.demo.embedded_uses import UseVectors, embed_uses
from elmore.demo.picture import CONTEXT, Box, Label, Picture, picture_uses
from elmore.embedder import Embedder
from elmore.errors import InputError
from elmore.uses.geometry import exact_plane


@pytest.fixture(scope="module")
def vectors(tiny_embedder: Embedder) -> dict[Language, UseVectors]:
    languages: list[Language] = ["en", "zh"]
    return {language: embed_uses(tiny_embedder, read_uses(language)) for language in languages}


@pytest.fixture(scope="module")
def picture(vectors: dict[Language, UseVectors]) -> Picture:
    return picture_uses(vectors["en"], "spring", "tiny")


def test_every_use_is_a_dot_inside_the_panel_with_its_words(picture: Picture):
    assert len(picture.dots) == 18
    senses = [label.text for label in picture.legend]
    assert senses == ["season", "coil", "water"]
    for dot in picture.dots:
        assert senses[dot.sense] == dot.use.sense
        assert CONTEXT.holds(Box(dot.x, dot.y, dot.x, dot.y))
        assert "spring" in dot.label.text


def test_distances_in_the_picture_are_those_of_the_plane(
    picture: Picture, vectors: dict[Language, UseVectors]
):
    points = exact_plane(vectors["en"].top[vectors["en"].of("spring")])
    drawn = np.array([(dot.x, dot.y) for dot in picture.dots])
    pairs = list(itertools.combinations(range(18), 2))
    true = np.array([np.linalg.norm(points[i] - points[k]) for i, k in pairs])
    shown = np.array([np.linalg.norm(drawn[i] - drawn[k]) for i, k in pairs])
    np.testing.assert_allclose(shown / true, shown[0] / true[0], rtol=1e-3)


def test_the_page_is_whole_and_fetches_nothing(picture: Picture, tmp_path: Path):
    write_html(picture, tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert page == html_page(picture)
    assert not any(mark in page for mark in ("http:", "https:", "<script", "<link", "@import"))
    drawing = ElementTree.fromstring(svg(picture))
    titles = [title.text for title in drawing.iter("title")]
    assert titles == [f"{dot.use.sense}: {dot.use.sentence}" for dot in picture.dots]
    marks = [mark for kind in ("circle", "rect", "polygon") for mark in drawing.iter(kind)]
    assert len(marks) == 18 + 3 + 1 + 2  # uses, legend, the one static vector, two panels


def test_text_cannot_break_the_page(picture: Picture):
    hostile = Picture("<b>&", "<i>", '"', picture.dots[:1], [Label("</svg>", 0, 0)])
    drawing = ElementTree.fromstring(svg(hostile))
    assert drawing.get("aria-label") == "<b>&"
    assert "</svg>" in [text.text for text in drawing.iter("text")]


def test_the_png_shows_each_sense_in_its_colour(picture: Picture, tmp_path: Path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    from matplotlib.image import imread

    write_png(picture, tmp_path / "x.png")
    image = imread(tmp_path / "x.png")[..., :3]
    assert image.shape == (940, 1920, 3)
    for dot in picture.dots[::6]:
        x, y = round(2 * dot.x), round(2 * dot.y)
        patch = image[y - 3 : y + 4, x - 3 : x + 4].reshape(-1, 3)
        assert (np.ptp(patch, axis=1) > 0.4).any(), "a colour, not ink or paper"


def test_chinese_without_a_font_for_it_is_said(
    vectors: dict[Language, UseVectors], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    monkeypatch.setattr("elmore.demo.drawing._FONTS", ("DejaVu Sans",))
    chinese = picture_uses(vectors["zh"], "苹果", "tiny")
    with pytest.raises(InputError, match=r"Noto Sans CJK SC.*\.html instead"):
        write_png(chinese, tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []
