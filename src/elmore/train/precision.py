"""In which precision training multiplies matrices. Weights, sums, norms, cells and losses are
float32 in any case.
"""

import time
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Precision = Literal["auto", "float32", "bfloat16"]
Rounding = Literal["float32", "bfloat16"]
"""A precision that has been decided."""
SMALLEST_DIM = 256
"""Of a model that `auto` rounds on a CPU: the products of smaller ones are quick anyway."""
LEAST_SPEEDUP = 1.3
"""Below this, `auto` does not round on a CPU."""
_ROWS, _IN, _OUT = 2048, 256, 1024
_FEW_ROWS = 64  # without units for bfloat16 a product of all rows can take seconds
_HOPELESS = 0.7
_SECONDS = 0.8


def resolve(asked: Precision, device: torch.device, dim: int) -> Rounding:
    """What `auto` means for a model of width `dim`: bfloat16 on a GPU; on a CPU only for a model
    that is wide enough, and if a short measurement finds it faster."""
    if asked != "auto":
        return asked
    if device.type == "cuda":
        return "bfloat16"
    wide = device.type == "cpu" and dim >= SMALLEST_DIM
    return "bfloat16" if wide and bfloat16_speedup() >= LEAST_SPEEDUP else "float32"


def measured_note() -> str:
    """What the user of a run is told where a measurement chose bfloat16."""
    return (
        f"Products are computed in bfloat16: {bfloat16_speedup():.1f} times as fast here as "
        "float32 (precision=auto)."
    )


def products_in(rounding: Rounding, device: torch.device) -> torch.autocast:
    """A context in which products are computed so."""
    return torch.autocast(device.type, torch.bfloat16, enabled=rounding == "bfloat16")


def bfloat16_speedup() -> float:
    """How many times as fast as float32 this CPU computes typical products and their gradients
    with torch's threads. The first call takes about a second."""
    return _measured(torch.get_num_threads())


@cache
def _measured(n_threads: int) -> float:
    del n_threads  # it tells measurements apart
    few = _speedup(_FEW_ROWS, _SECONDS / 10)
    return few if few < _HOPELESS else _speedup(_ROWS, _SECONDS)


def _speedup(n_rows: int, seconds: float) -> float:
    """The best of several times; both take turns, so that other work on the machine slows both."""
    # no random numbers: a seed may have been set already
    x, w, grad = (
        torch.linspace(-1, 1, n * m).view(n, m)
        for n, m in ((n_rows, _IN), (_OUT, _IN), (n_rows, _OUT))
    )
    x.requires_grad_(), w.requires_grad_()
    best: dict[Rounding, float] = {"float32": float("inf"), "bfloat16": float("inf")}
    end = time.perf_counter() + seconds
    for turn in range(100):
        for rounding in best:
            begin = time.perf_counter()
            _product_and_back(x, w, grad, rounding)
            spent = time.perf_counter() - begin
            if turn:  # the first one prepares
                best[rounding] = min(best[rounding], spent)
        if turn > 1 and time.perf_counter() > end:
            break
    return best["float32"] / best["bfloat16"]


@torch.enable_grad()
def _product_and_back(x: Tensor, w: Tensor, grad: Tensor, rounding: Rounding) -> None:
    with products_in(rounding, x.device):
        y = F.linear(x, w)
    torch.autograd.grad(y, (x, w), grad.to(y.dtype))
