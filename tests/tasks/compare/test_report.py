"""The table, the JSON and the page of a comparison: what they say, and that they say it safely."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from elmore.tasks.compare.page import page
from elmore.tasks.compare.report import Report, summarize
from tests.tasks.compare.outcomes import ELMO, GLOVE, MIX, done, failed

SIZES = ((0.01, 10), (0.1, 100), (1.0, 1000))


def report(*outcomes) -> Report:
    failures = [outcome for outcome in outcomes if outcome.kind == "failed"]
    return Report("ner", {"files": {"train": "eng.train"}}, summarize(outcomes), failures)


def sizes() -> Report:
    return report(
        *(
            done(
                encoder, 50 + 20 * fraction + plus + seed, seed=seed, fraction=fraction, examples=n
            )
            for fraction, n in SIZES
            for encoder, plus in (("none", 0), (GLOVE, 5))
            for seed in (1, 2)
        )
    )


class Tags(HTMLParser):
    """Fails on a tag that is closed without having been opened, or the other way round."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def count(self, tag: str, kind: str) -> int:
        return sum(t == tag and kind in (a.get("class") or "").split() for t, a in self.seen)


def test_the_table_has_mean_spread_gain_time_parameters_and_mixes():
    table = report(
        done(GLOVE, 80.0), done(GLOVE, 84.0, seed=2, seconds=90.0),
        done(ELMO, 86.0, mixes=[MIX]), done(ELMO, 86.0, seed=2, mixes=[MIX]),
    ).table()  # fmt: skip
    assert table[0] == [
        "encoder", "examples", "F1", "gain", "precision", "seeds", "seconds", "peak MB",
        "trainable", "frozen", "s_0 … s_L (γ)",
    ]  # fmt: skip
    assert table[1] == [
        "glove", "1,000", "82.00 ± 2.83", "", "83.00", "2", "75", "512", "12,345", "2,500,000", "",
    ]  # fmt: skip
    assert table[2][2:6] == ["86.00 ± 0.00", "+4.00 over glove (2/2)", "87.00", "2"]
    assert table[2][-1] == "small-en input 0.50 0.30 0.20 (1.50)"


def test_the_table_says_so_where_there_is_no_gain_and_where_seeds_failed():
    table = report(done("none", 80.0), done("x", 79.5), failed("x", seed=2)).table()
    assert table[2][3] == "-0.50 NOT above none (0/1)"
    assert table[2][5] == "1, 1 failed"


def test_the_markdown_is_aligned():
    lines = report(done("none", 80.0), done(GLOVE, 85.0)).markdown().splitlines()
    assert len({len(line) for line in lines}) == 1
    assert re.fullmatch(r"\| -+ (\| -+: )+\|", lines[1])


def test_a_notebook_shows_the_table_and_its_notes_safely():
    found = replace(report(done("<b>", 50, seed=1)), notes=("2 < 3 examples",))
    shown = found._repr_html_()
    Tags(shown)
    assert shown.count("<tr>") == 2
    assert "&lt;b&gt;" in shown
    assert "<p>2 &lt; 3 examples</p>" in shown
    assert "Nothing is finished yet." in report()._repr_html_()


def test_the_json_has_every_seeds_figures():
    found = json.loads(sizes().json())
    assert found["task"] == "ner"
    assert len(found["rows"]) == 6
    assert found["rows"][0]["scores"]["F1"] == [51.2, 52.2]
    assert found["rows"][0]["mean"] == pytest.approx(51.7)
    assert found["rows"][-1]["gain"]["over"] == "none"


def test_the_page_asks_nothing_of_the_network_and_runs_no_script():
    drawn = page(sizes())
    assert not re.search(r"https?:|<script|<link|@import|url\(", drawn)


def test_the_page_has_a_point_for_every_seed_and_a_line_for_every_encoder():
    tags = Tags(page(sizes()))
    assert tags.count("line", "mean") == 2  # score by encoder
    assert tags.count("polyline", "curve") == 2  # score against training size
    assert tags.count("circle", "faint") == 2 * 2 * len(SIZES)


def test_the_sizes_stand_at_equal_distances_because_the_axis_is_logarithmic():
    curve = re.search(r'<polyline points="([^"]+)"', page(sizes()))
    assert curve is not None
    places = [tuple(map(float, pair.split(","))) for pair in curve.group(1).split()]
    (a, ya), (b, yb), (c, yc) = places
    assert b - a == pytest.approx(c - b, abs=0.2)
    assert ya > yb > yc  # the more examples the better, and upwards is less in SVG


def test_the_bars_are_as_long_as_the_weights():
    drawn = page(report(done(ELMO, 86.0, mixes=[MIX])))
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn)]
    assert [w / sum(widths) for w in widths] == pytest.approx(MIX.weights, abs=1e-3)


def test_without_mixes_or_sizes_their_plots_are_left_out():
    drawn = page(report(done("none", 80.0)))
    Tags(drawn)
    assert "Score by encoder" in drawn
    assert "Learned layer weights" not in drawn
    assert "Score against training size" not in drawn


def test_names_and_errors_are_written_safely():
    name = 'a"<b>&' + "x" * 80
    drawn = page(report(done(name, 80.0, mixes=[MIX]), failed(name, seed=2, error="<script>")))
    Tags(drawn)
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn


def test_a_comparison_that_has_only_failures_still_has_a_page():
    found = report(failed("none", error="InputError: no such file"))
    Tags(page(found))
    assert "InputError: no such file" in page(found)
    assert found.markdown() == "Nothing is finished yet.\n"
