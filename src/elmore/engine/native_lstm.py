"""One LSTM layer by the compiled kernel: weights packed the way lstm.cpp reads them, in float32 or
in int8 with one scale per gate or output.
"""

# S = 2 directions, N places of the plan, B rows, D dim, C cells, K inputs of a gate
import ctypes
import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from elmore.engine.kernel import Kernel, LayerArguments, Panels, multiply_into
from elmore.engine.lstm import Layer, Rows
from elmore.nn.lstm import DIRECTIONS, LSTMConfig, LSTMLayer

Precision = Literal["float32", "bfloat16", "int8"]

_GATES = 4
_FEW_ROWS = 12  # per step; with fewer, reading the weights from memory takes most of the time


class NativeLayer(Layer):
    """A layer's weights in the kernel's order; gates stand tile by tile."""

    def __init__(self, layer: LSTMLayer, kernel: Kernel, precision: Precision, *, first: bool):
        config: LSTMConfig = layer.config
        self._kernel, self._precision, self._first, self.config = kernel, precision, first, config
        self._cells = -(-config.cell_dim // kernel.lanes) * kernel.lanes
        self._dim = -(-config.dim // kernel.lanes) * kernel.lanes
        sides = range(DIRECTIONS)
        bias = layer.opened_bias().unsqueeze(-1)
        self._bias = [self._tiled(bias[s]).contiguous() for s in sides]
        self._gates = [
            self._pack([self._inputs(layer.w_input[s]), self._inputs(layer.w_state[s])])
            for s in sides
        ]
        w_project = layer.w_project
        self._projections = [
            None if w_project is None else self._pack([self._outputs(w_project[s])]) for s in sides
        ]
        self._arguments = [self._arguments_of(s) for s in sides]

    @property
    def n_gates(self) -> int:
        return _GATES * self._cells

    def input_gates(self, direction: int, x: Tensor) -> Tensor:
        gates = x.new_empty(len(x), self.n_gates)  # tile by tile
        self.fill(direction, x, gates, None)
        return gates

    def fill(self, direction: int, x: Tensor, table: Tensor, numbers: Tensor | None) -> None:
        if self._precision == "int8":  # rounded by whole lanes
            x = F.pad(x, (0, self._dim - x.shape[1]))
        panels, bias = self._gates[direction], self._bias[direction]  # x stands before h
        multiply_into(self._kernel, panels, x, bias, table, numbers)

    def read_gates(
        self, direction: int, table: Tensor, numbers: Tensor | None, rows: Rows
    ) -> Tensor:
        numbers = torch.arange(len(table)) if numbers is None else numbers
        return self._call(direction, len(numbers), (table, numbers, None), rows)

    def read(self, direction: int, x: Tensor, rows: Rows) -> Tensor:
        # In int8, x is rounded together with h, except in the first layer, however many rows there
        # are: a sentence's numbers must not depend on the other sentences of its batch.
        few = self._precision == "float32" and len(x) < _FEW_ROWS * len(rows.active)
        if few or self._first:
            return super().read(direction, x, rows)
        return self._call(direction, len(x), (None, None, x), rows)

    def _call(
        self, direction: int, n: int, inputs: tuple[Tensor | None, ...], rows: Rows
    ) -> Tensor:
        """`inputs` are a table of gates and the places' rows in it, or the places' x."""
        h, c, active = rows.h, rows.c, np.ascontiguousarray(rows.active)
        outputs = h.new_empty(n, self.config.dim)
        cells = c if self._cells == c.shape[1] else F.pad(c, (0, self._cells - c.shape[1]))
        assert all(t is None or t.is_contiguous() for t in (*inputs, h, cells, outputs))
        library = self._kernel.library
        int8 = self._precision == "int8"
        failed = (library.elmore_read_int8 if int8 else library.elmore_read_float32)(
            ctypes.addressof(self._arguments[direction]),
            *map(_address, inputs),
            active.ctypes.data,
            len(active),
            *(t.data_ptr() for t in (h, cells, outputs)),
        )
        if failed:
            raise MemoryError("The LSTM kernel could not allocate memory for its rows.")
        if cells is not c:
            c.copy_(cells[:, : c.shape[1]])
        return outputs

    def _tiled(self, gates: Tensor) -> Tensor:
        """(4C, K) -> (C / LANES, 4, LANES, K), with zeros for missing cells."""
        more = self._cells - self.config.cell_dim
        cells: Tensor = F.pad(gates.unflatten(0, (_GATES, -1)), (0, 0, 0, more))
        tiles: Tensor = cells.unflatten(1, (-1, self._kernel.lanes)).transpose(0, 1)
        return tiles

    def _outputs(self, w_project: Tensor) -> Tensor:
        """(D, C) -> (D / (4 LANES), 4, LANES, C), padded with zeros too."""
        width = _GATES * self._kernel.lanes
        more_cells, more = self._cells - w_project.shape[1], -len(w_project) % width
        padded = F.pad(w_project, (0, more_cells, 0, more))
        tiles: Tensor = padded.unflatten(0, (-1, _GATES, self._kernel.lanes))
        return tiles

    def _inputs(self, w: Tensor) -> Tensor:
        """(4C, D) -> (C / LANES, 4, LANES, D), inputs rounded up to whole lanes too."""
        return self._tiled(F.pad(w, (0, self._dim - self.config.dim)))

    def _pack(self, parts: list[Tensor]) -> Panels:
        return _floats(parts) if self._precision == "float32" else _bytes(parts)

    def _arguments_of(self, direction: int) -> LayerArguments:
        gates, project = self._gates[direction], self._projections[direction]
        config = self.config
        return LayerArguments(
            w_gates=gates.weights.data_ptr(),
            w_project=None if project is None else project.weights.data_ptr(),
            gate_scales=_address(gates.scales),
            project_scales=None if project is None else _address(project.scales),
            bias=self._bias[direction].data_ptr(),
            dim=config.dim,
            dim_padded=self._dim,
            cells=self._cells,
            inputs=2 * self._dim,
            cell_clip=math.inf if config.cell_clip is None else config.cell_clip,
            proj_clip=math.inf if config.proj_clip is None else config.proj_clip,
        )


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _floats(parts: list[Tensor]) -> Panels:
    """(tiles, 4, LANES, k) each, for inputs side by side -> panels (tiles, K, 4, LANES)."""
    tiles, gates, lanes, _ = parts[0].shape
    panels = parts[0].new_empty(tiles, sum(part.shape[3] for part in parts), gates, lanes)
    start = 0
    for part in parts:
        end = start + part.shape[3]
        panels[:, start:end] = part.permute(0, 3, 1, 2)
        start = end
    return Panels(panels, None)


def _bytes(parts: list[Tensor]) -> Panels:
    """The same as (tiles, K / 4, 4, LANES, 4); the largest weight of a gate becomes 127."""
    largest = [torch.maximum(part.amax(dim=-1), -part.amin(dim=-1)) for part in parts]
    units = torch.stack(largest).amax(dim=0) / 127  # (tiles, 4, LANES)
    units[units == 0] = 1.0
    rounded = [
        (part / units.unsqueeze(-1)).round_().add_(128).to(torch.uint8).contiguous()
        for part in parts
    ]
    fours = torch.cat(rounded, dim=-1).view(torch.int32).flatten(1, 2)  # (tiles, 4 LANES, K / 4)
    return Panels(fours.mT.contiguous().view(torch.uint8), units.contiguous())
