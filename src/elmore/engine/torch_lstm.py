"""One LSTM layer without gradients in plain PyTorch, on a CPU or a GPU: everything in place, one
slice of cells at a time, so that the gates of a slice are still in the cache when they are used.
"""

# S = 2 directions, N places of the plan, T steps, B rows, n rows still reading, D dim, C cells
# Products with fixed weights: N rows, K inputs, M outputs
import torch
from torch import Tensor

from elmore.engine.lstm import Layer, Rows
from elmore.nn.lstm import DIRECTIONS, LSTMLayer

_SLICE = 512  # cells, on a CPU
_ROWS = 128  # a hint for the order of packed weights: about the rows of one step


class TorchLayer(Layer):
    """A layer's weights in slices of cells; the gates of a slice are next to each other."""

    def __init__(self, layer: LSTMLayer):
        self.config = layer.config
        n_cells = self.config.cell_dim
        size = _SLICE if layer.bias.device.type == "cpu" else n_cells
        self._cells = [slice(i, min(i + size, n_cells)) for i in range(0, n_cells, size)]
        sides = range(DIRECTIONS)
        self._bias = [self._sliced(layer.opened_bias()[s]) for s in sides]  # (4C,) each
        self._w_input = [FixedWeights(self._sliced(layer.w_input[s])) for s in sides]
        self._w_state = [
            [FixedWeights(_slice(layer.w_state[s], cells)) for cells in self._cells] for s in sides
        ]
        w_project = layer.w_project
        self._w_project = [None if w_project is None else FixedWeights(w_project[s]) for s in sides]

    def input_gates(self, direction: int, x: Tensor) -> Tensor:
        # slice after slice
        return self._w_input[direction].times(x, self._bias[direction])

    def fill(self, direction: int, x: Tensor, table: Tensor, numbers: Tensor) -> None:
        table[numbers] = self.input_gates(direction, x)

    def _sliced(self, gates: Tensor) -> Tensor:
        """(4C, …) in the order of the slices."""
        if len(self._cells) == 1:
            return gates
        return torch.cat([_slice(gates, cells) for cells in self._cells])

    def read_gates(
        self, direction: int, table: Tensor, numbers: Tensor | None, rows: Rows
    ) -> Tensor:
        h, c = rows.h, rows.c
        outputs = h.new_empty(len(table) if numbers is None else len(numbers), h.shape[1])  # (N, D)
        start = 0
        for n in rows.active.tolist():
            places = slice(start, start + n)
            z = table[places if numbers is None else numbers[places]]  # (n, 4C)
            outputs[places] = self._step(direction, z, h[:n], c[:n])
            start += n
        return outputs

    def _step(self, direction: int, z: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """z (n, 4C), h (n, D), c (n, C), all overwritten -> h."""
        hidden = torch.empty_like(c)
        for cells, w_state in zip(self._cells, self._w_state[direction], strict=True):
            gates = w_state.added(z[:, 4 * cells.start : 4 * cells.stop], h)  # (n, 4 cells)
            _squash(gates, c[:, cells], hidden[:, cells], self.config.cell_clip)
        w_project = self._w_project[direction]
        if w_project is None:
            return h.copy_(hidden)
        h.copy_(w_project.times(hidden))
        clip = self.config.proj_clip
        return h if clip is None else h.clamp_(-clip, clip)


def _squash(gates: Tensor, c: Tensor, hidden: Tensor, clip: float | None) -> None:
    """Gates (n, 4k): the new cell goes into c (n, k), its output into `hidden`."""
    k = c.shape[1]
    i_f, g, o = gates[:, : 2 * k].sigmoid_(), gates[:, 2 * k : 3 * k].tanh_(), gates[:, 3 * k :]
    c.mul_(i_f[:, k:]).addcmul_(i_f[:, :k], g)
    if clip is not None:
        c.clamp_(-clip, clip)
    torch.mul(torch.tanh(c), o.sigmoid_(), out=hidden)


def _slice(gates: Tensor, cells: slice) -> Tensor:
    """(4C, …) -> (4 cells, …): the four gates of some cells."""
    some: Tensor = gates.unflatten(0, (4, -1))[:, cells].flatten(0, 1)
    return some


class FixedWeights:
    """W (M, K), applied as x Wᵀ. On a CPU, oneDNN can store weights that never change in its own
    order, which saves a quarter of the time; if this build of torch lacks it, they stay as they
    are."""

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
