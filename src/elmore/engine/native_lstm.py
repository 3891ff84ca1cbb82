"""One LSTM layer by the compiled kernel: weights packed the way lstm.cpp reads them, in float32 or
in bytes with one scale a gate or output.
"""

# S = 2 directions, N places of the plan, B rows, D dim, C cells, K inputs of a gate
import ctypes
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmore.engine.kernel import Kernel, LayerArguments
from elmore.nn.lstm import DIRECTIONS, LSTMConfig, LSTMLayer

Precision = Literal["float32", "int8"]

_GATES = 4
_FEW_ROWS = 12  # a step; below, weights are read from memory for little work each


@dataclass(frozen=True, slots=True)
class _Packed:
    """Panels of weights, (…, LANES) or (…, LANES, 4) in bytes, and what a byte's unit is worth."""

    weights: Tensor
    scales: Tensor | None


class NativeLayer:
    """A layer's weights in the kernel's order; gates stand tile by tile."""

    def __init__(self, layer: LSTMLayer, kernel: Kernel, precision: Precision, *, first: bool):
        config: LSTMConfig = layer.config
        self._kernel, self._precision, self.config = kernel, precision, config
        lanes = kernel.lanes
        self._cells = -(-config.cell_dim // lanes) * lanes
        self._w_input = layer.w_input
        self._bias = [self._tiled(layer.opened_bias()[s].unsqueeze(1))[..., 0] for s in (0, 1)]
        self._plain_bias = layer.opened_bias()
        dim = -(-config.dim // lanes) * lanes
        self._packed: list[_Packed] = []
        self._projections: list[_Packed | None] = []
        self._arguments: list[LayerArguments] = []
        for s in range(DIRECTIONS):
            parts = [layer.w_state[s]] if first else [layer.w_state[s], layer.w_input[s]]
            w = torch.cat([F.pad(part, (0, dim - config.dim)) for part in parts], dim=1)
            self._packed.append(_pack(self._tiled(w), precision))
            w_project = None if layer.w_project is None else self._outputs(layer.w_project[s])
            self._projections.append(None if w_project is None else _pack(w_project, precision))
            self._arguments.append(self._arguments_of(s, dim, w.shape[1]))

    @property
    def n_gates(self) -> int:
        return _GATES * self._cells

    def input_gates(self, direction: int, x: Tensor) -> Tensor:
        """x (N, D) -> gate sums (N, 4C) tile by tile, the recurrent part still missing."""
        z = torch.addmm(self._plain_bias[direction], x, self._w_input[direction].mT)
        z = F.pad(z.unflatten(1, (_GATES, -1)), (0, self._cells - self.config.cell_dim))
        return z.unflatten(2, (-1, self._kernel.lanes)).transpose(1, 2).flatten(1)

    def read_words(
        self,
        direction: int,
        table: Tensor,
        rows: Tensor,
        active: NDArray[np.int32],
        h: Tensor,
        c: Tensor,
    ) -> Tensor:
        """Place i reads gates `table[rows[i]]`; h (B, D) and c (B, C) are taken on in place."""
        return self._call(direction, table, rows, None, active, h, c)

    def read(
        self, direction: int, x: Tensor, active: NDArray[np.int32], h: Tensor, c: Tensor
    ) -> Tensor:
        """x (N, D) -> outputs (N, D)."""
        # In bytes x is rounded together with h, so there is one way only: its numbers must not
        # depend on how many rows there are.
        few = self._precision == "float32" and len(x) < _FEW_ROWS * len(active)
        if few or self._arguments[direction].inputs == self._arguments[direction].dim_padded:
            return self._read_in_blocks(direction, x, active, h, c)
        return self._call(direction, None, None, x, active, h, c)

    def _read_in_blocks(
        self, direction: int, x: Tensor, active: NDArray[np.int32], h: Tensor, c: Tensor
    ) -> Tensor:
        """Input gates of many steps in one product."""
        outputs, ends = torch.empty_like(x), np.cumsum(active)
        start = first = 0
        while start < len(x):
            last = max(first + 1, int(np.searchsorted(ends, start + 512, side="right")))
            end = int(ends[last - 1])
            table = self.input_gates(direction, x[start:end])
            rows = torch.arange(end - start)
            n = active[first]
            state = h[:n], c[:n]
            outputs[start:end] = self._call(
                direction, table, rows, None, active[first:last], *state
            )
            start, first = end, last
        return outputs

    def _call(
        self,
        direction: int,
        table: Tensor | None,
        rows: Tensor | None,
        x: Tensor | None,
        active: NDArray[np.int32],
        h: Tensor,
        c: Tensor,
    ) -> Tensor:
        n = len(x) if x is not None else len(rows) if rows is not None else 0
        outputs = h.new_empty(n, self.config.dim)
        cells = c if self._cells == c.shape[1] else F.pad(c, (0, self._cells - c.shape[1]))
        active = np.ascontiguousarray(active)
        tensors = (table, rows, x, h, cells, outputs)
        assert all(t is None or t.is_contiguous() for t in tensors)
        library = self._kernel.library
        int8 = self._precision == "int8"
        failed = (library.elmore_read_int8 if int8 else library.elmore_read_float32)(
            ctypes.addressof(self._arguments[direction]),
            *(None if t is None else t.data_ptr() for t in (table, rows, x)),
            active.ctypes.data,
            len(active),
            *(t.data_ptr() for t in (h, cells, outputs)),
        )
        if failed:
            raise MemoryError("The LSTM kernel found no memory for its rows.")
        if cells is not c:
            c.copy_(cells[:, : c.shape[1]])
        return outputs

    def _tiled(self, gates: Tensor) -> Tensor:
        """(4C, K) -> (C / LANES, 4, LANES, K), cells that are not there being zero."""
        config = self.config
        cells = F.pad(gates.unflatten(0, (_GATES, -1)), (0, 0, 0, self._cells - config.cell_dim))
        return cells.unflatten(1, (-1, self._kernel.lanes)).transpose(0, 1)

    def _outputs(self, w_project: Tensor) -> Tensor:
        """(D, C) -> (D / (4 LANES), 4, LANES, C), with zeros likewise."""
        width = _GATES * self._kernel.lanes
        more_cells, more = self._cells - w_project.shape[1], -len(w_project) % width
        padded = F.pad(w_project, (0, more_cells, 0, more))
        return padded.unflatten(0, (-1, _GATES, self._kernel.lanes))

    def _arguments_of(self, direction: int, dim: int, inputs: int) -> LayerArguments:
        gates, project = self._packed[direction], self._projections[direction]
        config = self.config
        self._bias[direction] = self._bias[direction].contiguous()
        return LayerArguments(
            w_gates=gates.weights.data_ptr(),
            w_project=None if project is None else project.weights.data_ptr(),
            gate_scales=None if gates.scales is None else gates.scales.data_ptr(),
            project_scales=(
                None if project is None or project.scales is None else project.scales.data_ptr()
            ),
            bias=self._bias[direction].data_ptr(),
            dim=config.dim,
            dim_padded=dim,
            cells=self._cells,
            inputs=inputs,
            cell_clip=math.inf if config.cell_clip is None else config.cell_clip,
            proj_clip=math.inf if config.proj_clip is None else config.proj_clip,
        )


def _pack(w: Tensor, precision: Precision) -> _Packed:
    """(tiles, 4, LANES, K) -> panels; in bytes the largest weight of each gate is 127 units."""
    if precision == "float32":
        return _Packed(w.permute(0, 3, 1, 2).contiguous(), None)
    units = w.abs().amax(dim=-1) / 127  # (tiles, 4, LANES)
    units[units == 0] = 1.0
    rounded = (w / units.unsqueeze(-1)).round_().add_(128).to(torch.uint8)
    panels = rounded.unflatten(3, (-1, 4)).permute(0, 3, 1, 2, 4)  # (tiles, K / 4, 4, LANES, 4)
    return _Packed(panels.contiguous(), units.contiguous())
