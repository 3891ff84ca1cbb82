"""Matrix products by the compiled kernel. A row's numbers are the same bits whatever other rows
there are, which no BLAS promises: what is remembered of a word does not depend on who asked first.
"""

# N rows, K inputs, M outputs
import copy

import torch.nn.functional as F
from torch import Tensor, nn

from elmore.engine.kernel import Kernel


def multiply(kernel: Kernel, panels: Tensor, x: Tensor, start: Tensor) -> Tensor:
    """start (M,) + x (N, K) by panels (M / width, K or more, width), of which the first K count."""
    x = x.contiguous()
    n_panels, rows, width = panels.shape
    out = x.new_empty(len(x), n_panels * width)
    kernel.library.elmore_multiply(
        panels.data_ptr(),
        rows * width,
        x.data_ptr(),
        x.shape[1],
        len(x),
        start.data_ptr(),
        out.shape[1],
        out.data_ptr(),
    )
    return out


class NativeLinear(nn.Module):
    """An nn.Linear for inference."""

    def __init__(self, linear: nn.Linear, kernel: Kernel):
        super().__init__()
        self._kernel, self._outputs = kernel, linear.out_features
        more = -linear.out_features % kernel.width
        weight = F.pad(linear.weight, (0, 0, 0, more)).unflatten(0, (-1, kernel.width))
        self._panels = weight.transpose(1, 2).contiguous()  # (M / width, K, width)
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
