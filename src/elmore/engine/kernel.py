"""The compiled kernel, if there is one: found beside its source, checked against it, and called
through ctypes, which lets other threads run at the same time.

In its matrix products a row gets the same bits whatever other rows are in the batch, which no BLAS
guarantees: so what is cached for a word does not depend on its batch.
"""

# N rows, K inputs, M outputs
import copy
import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from elmore.kernel_files import FOLDER, kernel_paths, load_library


class LayerArguments(ctypes.Structure):
    """`Layer` of lstm.cpp."""

    _fields_ = (
        ("w_gates", ctypes.c_void_p),
        ("w_project", ctypes.c_void_p),
        ("gate_scales", ctypes.c_void_p),
        ("project_scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("dim", ctypes.c_int64),
        ("dim_padded", ctypes.c_int64),
        ("cells", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("cell_clip", ctypes.c_float),
        ("proj_clip", ctypes.c_float),
    )


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loaded kernel: the fastest that this machine can run."""

    name: str
    lanes: int
    library: ctypes.CDLL

    @property
    def width(self) -> int:
        """Outputs per panel: four gates of one tile of cells, or as many other outputs."""
        return 4 * self.lanes


@dataclass(frozen=True, slots=True)
class NoKernel:
    """Why there is none."""

    reason: str


@cache
def find_kernel(folder: Path = FOLDER) -> Kernel | NoKernel:
    """Cached: what is installed does not change while a program runs."""
    there = {name: path for name, path in kernel_paths(folder).items() if path.is_file()}
    for name, path in there.items():
        if kernel := load_kernel(name, path):
            return kernel
    if there:
        return NoKernel("none of the built kernels runs on this machine")
    if any(folder.glob("lstm-*.so")):
        return NoKernel("the kernel was built from another version of its source")
    return NoKernel("no kernel was built: there was no C++ compiler")


def load_kernel(name: str, path: Path) -> Kernel | None:
    """None if this machine cannot run it."""
    library = load_library(path)
    return None if library is None else Kernel(name, _declared(library), library)


def _declared(library: ctypes.CDLL) -> int:
    """Declare the functions' argument types; returns the number of lanes."""
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    for read in (library.elmore_read_float32, library.elmore_read_int8):
        read.argtypes = (pointer,) * 5 + (count,) + (pointer,) * 3
        read.restype = ctypes.c_int
    rest = (pointer, count, count, pointer, count, pointer, pointer)
    library.elmore_multiply.argtypes = (pointer, count, *rest)
    library.elmore_multiply.restype = None
    library.elmore_multiply_int8.argtypes = (pointer, count, pointer, *rest)
    library.elmore_multiply_int8.restype = ctypes.c_int
    library.elmore_product.argtypes = (pointer, ctypes.c_int, pointer, count, count, pointer)
    library.elmore_product.restype = ctypes.c_int
    library.elmore_attention.argtypes = (pointer, pointer, count, count, count, pointer)
    library.elmore_attention.restype = ctypes.c_int
    library.elmore_add_norm.argtypes = (
        pointer, count, count, pointer, pointer, ctypes.c_float, pointer,
    )  # fmt: skip
    library.elmore_add_norm.restype = None
    library.elmore_product_width.restype = library.elmore_product_group.restype = count
    library.elmore_lanes.restype = count
    return int(library.elmore_lanes())


@dataclass(frozen=True, slots=True)
class Panels:
    """Weights as the kernel reads them: (M / width, K, width) numbers, or (M / width, K / 4, width,
    4) bytes and one scale per output."""

    weights: Tensor
    scales: Tensor | None = None  # (M,)


def multiply(kernel: Kernel, panels: Panels, x: Tensor, start: Tensor) -> Tensor:
    """start (M,) + x (N, K) times panels of at least K inputs, of which the first K are used."""
    out = x.new_empty(len(x), len(panels.weights) * kernel.width)
    multiply_into(kernel, panels, x, start, out, None)
    return out


def multiply_into(
    kernel: Kernel, panels: Panels, x: Tensor, start: Tensor, out: Tensor, rows: Tensor | None
) -> None:
    """The same, written to these rows of a larger table. With int8, rows of x are rounded too."""
    x = x.contiguous()
    weights, scales = panels.weights, panels.scales
    library = kernel.library
    sizes = (x.data_ptr(), x.shape[1], len(x), start.data_ptr(), out.shape[1])
    target = (None if rows is None else rows.data_ptr(), out.data_ptr())
    if scales is None:
        library.elmore_multiply(weights.data_ptr(), weights[0].numel(), *sizes, *target)
    elif library.elmore_multiply_int8(
        weights.data_ptr(), weights[0].numel(), scales.data_ptr(), *sizes, *target
    ):
        raise MemoryError("The kernel could not allocate memory for its rows.")


class NativeLinear(nn.Module):
    """An nn.Linear for inference."""

    def __init__(self, linear: nn.Linear, kernel: Kernel):
        super().__init__()
        self._kernel, self._outputs = kernel, linear.out_features
        more = -linear.out_features % kernel.width
        weight = F.pad(linear.weight, (0, 0, 0, more)).unflatten(0, (-1, kernel.width))
        self._panels = Panels(weight.transpose(1, 2).contiguous())
        self._bias = F.pad(linear.bias, (0, more))

    def forward(self, x: Tensor) -> Tensor:
        return multiply(self._kernel, self._panels, x, self._bias)[:, : self._outputs]


def with_native_linears(module: nn.Module, kernel: Kernel) -> nn.Module:
    """The same module and parameters, its nn.Linear parts replaced."""
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    twin = copy.deepcopy(module, shared)
    for parent in list(twin.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, NativeLinear(child, kernel))
    return twin
