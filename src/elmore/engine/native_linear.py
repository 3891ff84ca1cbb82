"""Matrix products by the compiled kernel. A row gets the same bits whatever other rows are in
the batch, which no BLAS guarantees: so what is cached for a word does not depend on its batch.
"""

# N rows, K inputs, M outputs
import copy
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from elmore.engine.kernel import Kernel


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
