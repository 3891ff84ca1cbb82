"""The plots: round numbers at the axes, nothing outside the drawing."""

import re

import pytest

from elmore.tasks.compare.plots import WIDTH, Look, _ticks, points_by_encoder, score_against_size
from elmore.tasks.compare.report import summarize
from tests.tasks.compare.outcomes import done

LOOKS = {"a": Look("a", 0)}


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.0, 100.0, ["0", "20", "40", "60", "80", "100"]),
        (85.1, 91.9, ["86", "88", "90"]),
        (90.0, 91.2, ["90.00", "90.25", "90.50", "90.75", "91.00"]),
        (90.11, 90.16, ["90.11", "90.12", "90.13", "90.14", "90.15", "90.16"]),
    ],
)
def test_ticks_are_round_numbers_within_the_ends(low: float, high: float, shown: list[str]):
    assert [text for _, text in _ticks(low, high)] == shown


@pytest.mark.parametrize("scores", [(80.0,), (80.0, 80.0), (0.0, 100.0), (80.001, 80.002)])
def test_points_stay_inside_the_drawing(scores: tuple[float, ...]):
    rows = summarize([done("a", score, seed=seed) for seed, score in enumerate(scores)])
    drawing = points_by_encoder(rows, LOOKS)
    places = [float(x) for x in re.findall(r'cx="([\d.-]+)"', drawing)]
    assert len(places) == len(scores)
    assert all(0 < x < WIDTH for x in places)


def test_sizes_that_would_touch_share_one_number():
    sizes = (100, 101, 102, 1000)
    rows = summarize([done("a", 80.0, fraction=n / 1000, examples=n) for n in sizes])
    drawing = score_against_size(rows, LOOKS)
    assert re.findall(r">([\d,]{3,})</text>", drawing) == ["100", "1,000"]
