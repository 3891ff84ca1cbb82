"""The compiled kernel, if there is one: found beside its source, checked against it, and called
through ctypes, which lets other threads run at the same time.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    library.elmore_lanes.restype = count
    return int(library.elmore_lanes())
