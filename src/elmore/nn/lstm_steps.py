"""A step of the LSTM in training without its matrix products: from gate sums to gates and cell, and
backward. The compiled kernel does it in one pass over the numbers, PyTorch in a dozen; they differ
by rounding only. The kernel is the engine's, found again here: `nn` may not import `engine`.
"""

# S = 2 directions, n rows still reading, C cell dim
import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from elmore.kernel_files import FOLDER, find_library

_CELLS_A_THREAD = 1 << 15  # about 100 µs of work; starting a thread takes a tenth of that


@dataclass(frozen=True, slots=True)
class Step:
    """The tensors of a step. The rows of each direction are contiguous."""

    gates: Tensor  # (S, n, 4C): input, forget, candidate, output; the gate sums at first
    before: Tensor  # (S, n, C), the cell of the step before
    cell: Tensor  # (S, n, C)
    hidden: Tensor  # (S, n, C), the output of the cell
    clip: float | None
    """Of the cell."""


class TorchSteps:
    """For every device and dtype."""

    def gate_sums(self, x: Tensor, w_input: Tensor, bias: Tensor) -> Tensor:
        """The contribution of all inputs: x (S, N, D) -> (S, N, 4C)."""
        bias = bias.unsqueeze(1)
        if x.dtype == w_input.dtype:
            return torch.baddbmm(bias, x, w_input.mT)
        return bias + torch.bmm(x.to(w_input.dtype), w_input.mT)

    def forward(self, step: Step, bias: Tensor) -> None:
        """From gate sums: gates in place, the cell and its output."""
        del bias  # it is in the sums already
        cell_dim = step.cell.shape[-1]
        i_f, g, o = step.gates.split([2 * cell_dim, cell_dim, cell_dim], dim=-1)
        i_f.sigmoid_(), g.tanh_(), o.sigmoid_()
        i, f = i_f.chunk(2, dim=-1)
        torch.mul(f, step.before, out=step.cell).addcmul_(i, g)
        if step.clip is not None:
            step.cell.clamp_(-step.clip, step.clip)
        torch.tanh(step.cell, out=step.hidden).mul_(o)

    def backward(self, step: Step, d_hidden: Tensor, dc: Tensor, d_gates: Tensor) -> None:
        """Writes the gradient of the gate sums to d_gates, and replaces dc, the gradient of the
        cell, by that of the cell before. Clipped numbers pass none."""
        i, f, g, o = step.gates.chunk(4, dim=-1)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=-1)
        torch.mul(d_hidden, step.hidden, out=d_o).mul_(1 - o)
        dc.addcmul_(d_hidden.mul(o), 1 - torch.tanh(step.cell).square_())
        if step.clip is not None:
            dc.mul_(step.cell.abs() < step.clip)
        torch.mul(dc, g, out=d_i).mul_(i * (1 - i))
        torch.mul(dc, step.before, out=d_f).mul_(f * (1 - f))
        torch.mul(dc, i, out=d_g).mul_(1 - g.square())
        dc.mul_(f)


class _Rows(ctypes.Structure):
    """`Rows` of steps.cpp."""

    _fields_ = (("first", ctypes.c_void_p), ("apart", ctypes.c_int64))


class _Step(ctypes.Structure):
    """`Step` of steps.cpp."""

    _fields_ = (
        ("gates", _Rows),
        ("before", _Rows),
        ("cell", _Rows),
        ("hidden", _Rows),
        ("n", ctypes.c_int64),
        ("cells", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("clip", ctypes.c_float),
    )


class NativeSteps:
    """The same for float32 on the CPU."""

    def __init__(self, library: ctypes.CDLL):
        pointer = ctypes.c_void_p
        self._forward, self._backward = library.elmore_step, library.elmore_step_back
        self._forward.argtypes, self._backward.argtypes = (pointer,) * 2, (pointer,) * 4
        self._forward.restype = self._backward.restype = None

    def gate_sums(self, x: Tensor, w_input: Tensor, bias: Tensor) -> Tensor:
        del bias  # each step adds it
        return torch.bmm(x, w_input.mT)

    def forward(self, step: Step, bias: Tensor) -> None:
        assert bias.is_contiguous()
        self._forward(ctypes.byref(_arguments(step)), bias.data_ptr())

    def backward(self, step: Step, d_hidden: Tensor, dc: Tensor, d_gates: Tensor) -> None:
        rows = [_rows(t) for t in (d_hidden, dc, d_gates)]
        self._backward(ctypes.byref(_arguments(step)), *map(ctypes.byref, rows))


def _arguments(step: Step) -> _Step:
    _, n, cells = step.cell.shape
    threads = min(torch.get_num_threads(), 1 + 2 * n * cells // _CELLS_A_THREAD)
    tensors = (step.gates, step.before, step.cell, step.hidden)
    clip = math.inf if step.clip is None else step.clip
    return _Step(*map(_rows, tensors), n, cells, threads, clip)


def _rows(t: Tensor) -> _Rows:
    assert t.dtype == torch.float32
    assert t[0].is_contiguous()
    return _Rows(t.data_ptr(), t.stride(0))


@cache
def find_native(folder: Path = FOLDER) -> NativeSteps | None:
    library = find_library(folder)
    return None if library is None else NativeSteps(library)
