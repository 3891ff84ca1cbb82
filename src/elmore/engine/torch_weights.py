"""Products with weights that never change, in PyTorch. On a CPU, oneDNN can store such weights in
its own order, which saves a quarter of the time; if this build of torch lacks it, they stay as
they are.
"""

# N rows, K inputs, M outputs
import torch
from torch import Tensor

_ROWS = 128  # a hint for the order: about the rows of one step


class FixedWeights:
    """W (M, K), applied as x Wᵀ."""

    def __init__(self, w: Tensor):
        self._packed = _packed(w)
        self._plain = w.mT if self._packed is None else w.new_empty(0)  # held once, not twice

    def times(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (N, K) -> (N, M)."""
        if self._packed is not None:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self._packed, bias, "none", [], ""
            )
            return product
        return x @ self._plain if bias is None else torch.addmm(bias, x, self._plain)

    def added(self, z: Tensor, x: Tensor) -> Tensor:
        """z (N, M) + x Wᵀ, possibly in place of z."""
        if self._packed is not None:
            total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
                x, z, self._packed, None, "add"
            )
            return total
        return z.addmm_(x, self._plain)


def _packed(w: Tensor) -> Tensor | None:
    """The same weights for oneDNN, tested once; None if that is not possible."""
    usable = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    if w.device.type != "cpu" or w.dtype != torch.float32 or not usable:
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(w.contiguous(), _ROWS)
        x, z = w.new_zeros(1, w.shape[1]), w.new_zeros(1, w.shape[0])
        torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
        torch.ops.mkldnn._linear_pointwise.binary(x, z, packed, None, "add")
    except (AttributeError, RuntimeError):  # not torch's public interface
        return None
    return packed
