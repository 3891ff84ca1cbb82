"""A step of the highway LSTM in training without its matrix product: from sums to gates, cell and
state, and backward. The compiled kernel does it in one pass over the numbers, PyTorch in a dozen;
they differ by rounding only.
"""

# n sentences that have a word at this step, H hidden units
import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from elmore.kernel_files import find_library


@dataclass(frozen=True, slots=True)
class HighwayStep:
    """The tensors of a step, each without gaps."""

    projected: Tensor  # (n, 6H): i, f, o, r, g and what the highway carries, of the input alone
    gates: Tensor  # (n, 5H): what i, f, o, r, g take from the state before; then the gates
    before: Tensor  # (n, H), the cell of the step before
    keep: Tensor  # (n, H), the dropout mask
    cell: Tensor  # (n, H)
    state: Tensor  # (n, H)


class TorchSteps:
    """For every device and dtype."""

    def forward(self, step: HighwayStep) -> None:
        """Writes gates, cell and state."""
        hidden = step.cell.shape[1]
        x, carried = step.projected.split([5 * hidden, hidden], dim=1)
        step.gates.add_(x)
        step.gates[:, : 4 * hidden].sigmoid_()
        step.gates[:, 4 * hidden :].tanh_()
        i, f, o, r, g = step.gates.split(hidden, dim=1)
        torch.mul(f, step.before, out=step.cell).addcmul_(i, g)
        torch.lerp(carried, torch.tanh(step.cell).mul_(o), r, out=step.state).mul_(step.keep)

    def backward(
        self, step: HighwayStep, grad: Tensor, d_state: Tensor, d_cell: Tensor, out: Tensor
    ) -> None:
        """From the gradient of the states (n, H), and those of state and cell by the next step,
        which fewer sentences may have: (later, H), and the first rows of (n, H). Writes that of
        `projected` to `out`, and that of the cell before to `d_cell`."""
        hidden, later = step.cell.shape[1], len(d_state)
        i, f, o, r, g = step.gates.split(hidden, dim=1)
        carried = step.projected[:, 5 * hidden :]
        squashed = torch.tanh(step.cell)
        d_h = grad.clone()
        d_h[:later] += d_state
        d_h *= step.keep
        d_y = d_h * r
        d_cell[later:] = 0
        d_cell += d_y * o * (1 - squashed * squashed)
        d_i, d_f, d_o, d_r, d_g, d_carried = out.split(hidden, dim=1)
        torch.mul(d_cell, g * i, out=d_i).mul_(1 - i)
        torch.mul(d_cell, step.before * f, out=d_f).mul_(1 - f)
        torch.mul(d_y, squashed * o, out=d_o).mul_(1 - o)
        torch.mul(d_h, o * squashed - carried, out=d_r).mul_(r * (1 - r))
        torch.mul(d_cell, i, out=d_g).mul_(1 - g * g)
        torch.sub(d_h, d_y, out=d_carried)
        d_cell *= f


class _Step(ctypes.Structure):
    """`HighwayStep` of highway.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in HighwayStep.__slots__),
        ("n", ctypes.c_int64),
        ("units", ctypes.c_int64),
    )


class _Back(ctypes.Structure):
    """`HighwayBack` of highway.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("grad", "d_state", "d_cell", "d_input")),
        ("later", ctypes.c_int64),
    )


class NativeSteps:
    """The same for float32 on the CPU."""

    def __init__(self, library: ctypes.CDLL):
        self._forward, self._backward = library.elmore_highway, library.elmore_highway_back
        self._forward.argtypes = (ctypes.c_void_p,)
        self._backward.argtypes = (ctypes.c_void_p,) * 2
        self._forward.restype = self._backward.restype = None

    def forward(self, step: HighwayStep) -> None:
        self._forward(ctypes.byref(_arguments(step)))

    def backward(
        self, step: HighwayStep, grad: Tensor, d_state: Tensor, d_cell: Tensor, out: Tensor
    ) -> None:
        pointers = map(_pointer, (grad, d_state, d_cell, out))
        back = _Back(*pointers, len(d_state))
        self._backward(ctypes.byref(_arguments(step)), ctypes.byref(back))


def _arguments(step: HighwayStep) -> _Step:
    tensors = (getattr(step, name) for name in HighwayStep.__slots__)
    return _Step(*map(_pointer, tensors), *step.cell.shape)


def _pointer(t: Tensor) -> int:
    assert t.is_contiguous()
    return t.data_ptr()


def steps_for(*tensors: Tensor) -> TorchSteps | NativeSteps:
    """The kernel where it is built, for float32 on the CPU; else PyTorch."""
    fits = all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    library = find_library() if fits else None
    return TorchSteps() if library is None else NativeSteps(library)
