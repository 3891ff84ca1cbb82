"""The compiled kernel's products of bfloat16 numbers, whose sums are float32: PyTorch rounds its
sums too. For CPUs with AVX-512 BF16, faster with AMX. The kernel is the engine's: `nn` may not
import `engine`.
"""

# N rows, O outputs, I inputs
import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from elmore.kernel_files import FOLDER, find_library

GATES = 4


@dataclass(frozen=True, slots=True)
class Kernel:
    """The library, and how many numbers it computes together."""

    library: ctypes.CDLL
    lanes: int

    @property
    def width(self) -> int:
        """Outputs of a panel."""
        return GATES * self.lanes

    def use_tiles(self, wanted: bool) -> bool:
        """Whether products are computed by AMX tiles from now on: if the CPU has them."""
        return bool(self.library.elmore_bf16_tiles(wanted))


@cache
def find_bf16(folder: Path = FOLDER) -> Kernel | None:
    """None if there is no kernel, or if the CPU has no units for bfloat16."""
    library = find_library(folder)
    if library is None or not library.elmore_bf16_supported():
        return None
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    library.elmore_layer_bf16.argtypes = (pointer,)
    library.elmore_layer_bf16_back.argtypes = (pointer, pointer)
    library.elmore_multiply_bf16.argtypes = (pointer, pointer, *(count,) * 4, pointer, pointer)
    return Kernel(library, int(library.elmore_lanes()))


def product_dtype(like: Tensor) -> torch.dtype:
    """What products are computed in: autocast's dtype, or the tensor's own."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype


def panels(w: Tensor, kernel: Kernel) -> Tensor:
    """bfloat16 weights as the kernel reads them, in pairs of inputs, of which there is an even
    number: (..., O, I) -> (..., O up / width, I / 2, width)."""
    w = F.pad(w, (0, 0, 0, -w.shape[-2] % kernel.width)).contiguous().view(torch.int32)
    tiles: Tensor = w.unflatten(-2, (-1, kernel.width))
    return tiles.mT.contiguous()


def multiply(kernel: Kernel, w: Tensor, x: Tensor, start: Tensor) -> Tensor:
    """start (O,) + x (N, I) times panels of at least O outputs, in float32; x is bfloat16, and O a
    multiple of the kernel's lanes."""
    out = start.new_empty(len(x), len(start))  # (N, O)
    sizes = x.shape[1], len(x), len(start), torch.get_num_threads()
    arguments = map(address, (w, x)), sizes, map(address, (start, out))
    checked(kernel.library.elmore_multiply_bf16(*(a for part in arguments for a in part)))
    return out


def address(tensor: Tensor | None) -> int | None:
    assert tensor is None or tensor.is_contiguous()
    return None if tensor is None else tensor.data_ptr()


def checked(failed: int) -> None:
    if failed:
        raise MemoryError("The kernel could not allocate memory.")
