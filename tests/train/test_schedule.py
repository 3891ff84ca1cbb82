"""Schedules at points worked out by hand."""

import math

import pytest

from elmore.train.schedule import (
    ConstantSchedule,
    CosineSchedule,
    LinearSchedule,
    NoamSchedule,
    OneCycleSchedule,
    PlateauSchedule,
    SlantedSchedule,
)


@pytest.mark.parametrize(
    ("schedule", "step", "progress", "drops", "factor"),
    [
        (ConstantSchedule(), 1, 0.0, 0, 1.0),
        (ConstantSchedule(warmup=10), 1, 0.0, 0, 0.1),
        (ConstantSchedule(warmup=10), 10, 0.5, 0, 1.0),
        (ConstantSchedule(warmup=10), 999, 0.5, 0, 1.0),
        (NoamSchedule(dim=64, warmup=100), 1, 0.0, 0, 1 / 8 / 1000),
        (NoamSchedule(dim=64, warmup=100), 100, 0.0, 0, 1 / 8 / 10),
        (NoamSchedule(dim=64, warmup=100), 400, 0.0, 0, 1 / 8 / 20),
        (CosineSchedule(warmup=0), 1, 0.0, 0, 1.0),
        (CosineSchedule(warmup=0), 9, 0.5, 0, 0.5),
        (CosineSchedule(warmup=0), 9, 1 / 3, 0, 0.75),
        (CosineSchedule(warmup=0), 9, 1.0, 0, 0.0),
        (CosineSchedule(warmup=0, floor=0.1), 9, 1.5, 0, 0.1),
        (CosineSchedule(warmup=4, floor=0.2), 1, 0.5, 0, 0.25 * (0.2 + 0.8 / 2)),
        (LinearSchedule(warmup=0.2), 9, 0.1, 0, 0.5),
        (LinearSchedule(warmup=0.2), 9, 0.2, 0, 1.0),
        (LinearSchedule(warmup=0.2), 9, 0.6, 0, 0.5),
        (LinearSchedule(warmup=0.0), 9, 0.25, 0, 0.75),
        (LinearSchedule(), 9, 1.5, 0, 0.0),
        (LinearSchedule(warmup=0.0, floor=0.2), 9, 0.25, 0, 0.8),
        (LinearSchedule(warmup=0.2, floor=0.2), 9, 1.0, 0, 0.2),
        (PlateauSchedule(), 50, 0.9, 0, 1.0),
        (PlateauSchedule(drop=0.25), 50, 0.9, 3, 1 / 64),
        (PlateauSchedule(drop=0.25, warmup=100), 50, 0.9, 1, 1 / 8),
    ],
)
def test_the_factor_is_as_worked_out(schedule, step, progress, drops, factor):
    assert schedule.factor(step, progress, drops) == pytest.approx(factor, abs=1e-15)


def test_noam_is_highest_where_the_climb_ends():
    schedule = NoamSchedule(dim=512, warmup=6000)
    factors = [schedule.factor(step, 0.0, 0) for step in range(1, 20_000)]
    assert factors.index(max(factors)) + 1 == 6000
    assert max(factors) == pytest.approx(1 / math.sqrt(512 * 6000))


def test_the_slanted_triangle_of_ulmfit():
    """f = 0.1, r = 32: by hand, (1 + 31 p) / 32."""
    slanted = SlantedSchedule()
    found = [slanted.factor(t, t / 100, 0) for t in (1, 5, 10, 55, 100)]
    assert found == pytest.approx([(1 + 3.1) / 32, 0.515625, 1.0, 0.515625, 1 / 32])
    # The published one has cut = floor(19 · 0.1) = 1 and, at its last step, p = 1 - 17/9 < 0.
    short = [slanted.factor(t, t / 19, 0) for t in range(1, 20)]
    assert min(short) == pytest.approx(1 / 32)
    assert [round(32 * f - 1, 6) for f in short[-2:]] == [round(31 / 17.1, 6), 0]
    assert slanted.factor(1, 1.0, 0) == pytest.approx(1 / 32)  # a run of one step


def test_one_cycle():
    cycle = OneCycleSchedule(warmup=0.25, start=25, end=100)
    found = [cycle.factor(0, done, 0) for done in (0.0, 0.125, 0.25, 0.625, 1.0)]
    assert found == pytest.approx([0.04, 0.52, 1.0, 0.505, 0.01])
