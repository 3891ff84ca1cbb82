"""Which precision training multiplies in: what `auto` means on this machine and on others."""

import math
import time

import pytest
import torch

from elmore.train import precision
from elmore.train.precision import LEAST_SPEEDUP, SMALLEST_DIM, products_in, resolve

CPU, GPU = torch.device("cpu"), torch.device("cuda")
WIDE = SMALLEST_DIM


def measures(monkeypatch: pytest.MonkeyPatch, speedup: float) -> None:
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: speedup)


def never() -> float:
    raise AssertionError("nothing had to be measured")


@pytest.mark.parametrize(
    ("speedup", "chosen"),
    [(2.1, "bfloat16"), (LEAST_SPEEDUP, "bfloat16"), (1.29, "float32"), (0.1, "float32")],
)
def test_auto_on_a_cpu_is_what_is_faster(
    speedup: float, chosen: str, monkeypatch: pytest.MonkeyPatch
):
    measures(monkeypatch, speedup)
    assert resolve("auto", CPU, WIDE) == chosen


def test_small_models_gpus_and_explicit_choices_need_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(precision, "bfloat16_speedup", never)
    assert resolve("auto", CPU, WIDE - 1) == "float32"
    assert resolve("auto", GPU, 8) == "bfloat16"
    assert resolve("auto", torch.device("mps"), WIDE) == "float32"
    assert resolve("bfloat16", CPU, 8) == "bfloat16"
    assert resolve("float32", GPU, WIDE) == "float32"


def test_a_measurement_is_made_once_and_draws_no_random_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(precision, "_SECONDS", 0.05)
    precision._measured.cache_clear()
    before = torch.get_rng_state()
    with torch.no_grad(), products_in("bfloat16", CPU):  # whatever the caller has set
        found = precision.bfloat16_speedup()
    assert math.isfinite(found)
    assert found > 0
    assert torch.equal(torch.get_rng_state(), before)
    begin = time.perf_counter()
    assert precision.bfloat16_speedup() == found
    assert time.perf_counter() - begin < 0.01
    precision._measured.cache_clear()


def test_where_bfloat16_is_hopeless_large_products_are_not_tried(monkeypatch: pytest.MonkeyPatch):
    tried: list[int] = []

    def slow(n_rows: int, seconds: float) -> float:
        tried.append(n_rows)
        return 0.05

    monkeypatch.setattr(precision, "_speedup", slow)
    precision._measured.cache_clear()
    assert precision.bfloat16_speedup() == 0.05
    assert tried == [precision._FEW_ROWS]
    precision._measured.cache_clear()


def test_products_are_rounded_only_if_asked_for():
    x = torch.ones(2, 2)
    for chosen, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        with products_in(chosen, CPU):  # type: ignore[arg-type]
            assert (x @ x).dtype == dtype
