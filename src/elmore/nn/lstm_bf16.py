"""All steps of an LSTM layer in training, with products of bfloat16 numbers, in one call of the
compiled kernel forward and one backward: gates, cells, clips and all sums stay float32. For CPUs
with AVX-512 BF16. The equations are those of nn/lstm.py.
"""

# S = 1 or 2 directions, T steps, B rows, N rows of all steps and rows of zeros up to a multiple of
# 64, X input dim, D output dim, K = X + D, C cell dim
import ctypes
import math
from typing import Any

import torch
from torch import Tensor

from elmore.nn.bf16_kernel import GATES, Kernel, address, checked, find_bf16, panels
from elmore.nn.lstm_rows import Clips, Weights, ends_of, pack, unpack

_LOW = torch.bfloat16
_MULTIPLE = 64  # PyTorch prepares and keeps its products anew for every number of rows


class _Layer(ctypes.Structure):
    """`TrainedLayer` of layer_bf16.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("directions", "rows", "most", "steps")),
        *((name, ctypes.c_int64) for name in ("x", "dim", "cells", "threads")),
        ("active", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("w_gates", "w_project")),
        *((name, ctypes.c_void_p) for name in ("w_state_back", "w_project_back", "bias")),
        *((name, ctypes.c_float) for name in ("cell_clip", "proj_clip")),
        *((name, ctypes.c_void_p) for name in ("h0", "c0", "in", "gates", "cell")),
        *((name, ctypes.c_void_p) for name in ("hidden", "out")),
    )


class _Gradients(ctypes.Structure):
    """`Gradients` of layer_bf16.cpp."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("d_out", "dh", "dc", "d_shown", "d_gates")
    )


def kernel_for(x: Tensor, c: Tensor, weights: Weights) -> Kernel | None:
    """If it can do this layer: on the CPU, in float32, and of sizes that fill its vectors."""
    w_input, _, w_state, _ = weights
    plain = all(t.device.type == "cpu" and t.dtype == torch.float32 for t in (x, c, w_input))
    kernel = find_bf16() if plain else None
    if kernel is None or w_input.shape[-1] % 2:
        return None
    fits = not (c.shape[-1] % kernel.lanes or w_state.shape[-1] % kernel.lanes)
    return kernel if fits else None


def whole_layer(
    kernel: Kernel,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    active: list[int],
    clips: Clips,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `all_steps` of nn/lstm_autograd.py."""
    out: tuple[Tensor, Tensor, Tensor] = _WholeLayer.apply(  # type: ignore[no-untyped-call]
        x, h, c, *weights, active, clips, kernel
    )
    return out


class _WholeLayer(torch.autograd.Function):
    """Gates stand tile by tile, a tile being as many cells as the kernel computes together."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        w_input: Tensor,
        bias: Tensor,
        w_state: Tensor,
        w_project: Tensor | None,
        active: list[int],
        clips: Clips,
        kernel: Kernel,
    ) -> tuple[Tensor, Tensor, Tensor]:
        h, c, packed = h.contiguous(), c.contiguous(), pack(x, active)
        (n_sides, n_real), n_x, dim, cells = packed.shape[:2], x.shape[-1], h.shape[-1], c.shape[-1]
        n_rows = n_real + -n_real % _MULTIPLE
        inputs = _zeros_from(n_real, x.new_empty(n_sides, n_rows, n_x + dim, dtype=_LOW))
        inputs[:, :n_real, :n_x] = packed  # (S, N, K)
        gates = x.new_empty(n_sides, n_rows, GATES * cells)
        cell, out = x.new_empty(n_sides, n_rows, cells), x.new_empty(n_sides, n_rows, dim)
        hidden = None
        if w_project is not None:
            hidden = _zeros_from(n_real, torch.empty_like(cell, dtype=_LOW))
        # (S, 4C, K), and its part for x, which the gradient of x needs
        w_gates = _tiled(torch.cat([w_input, w_state], dim=-1).to(_LOW), kernel)
        project = None if w_project is None else w_project.to(_LOW)
        tensors = {
            "active": torch.tensor(active, dtype=torch.int32),
            "w_gates": panels(w_gates, kernel),
            "w_project": None if project is None else panels(project, kernel),
            "w_state_back": None,
            "w_project_back": None,
            "bias": _tiled(bias.unsqueeze(-1), kernel),
            "h0": h,
            "c0": c,
            "in": inputs,
            "gates": gates,
            "cell": cell,
            "hidden": hidden,
            "out": out,
        }
        sizes = (n_sides, n_rows, h.shape[1], len(active), n_x, dim, cells)
        checked(kernel.library.elmore_layer_bf16(ctypes.byref(_arguments(sizes, tensors, clips))))
        if any(ctx.needs_input_grad):
            kept = {name: t for name, t in tensors.items() if name not in ("w_gates", "bias")}
            ctx.save_for_backward(w_gates, project, *kept.values())
            ctx.names, ctx.sizes, ctx.clips = [*kept], sizes, clips
            ctx.active, ctx.kernel, ctx.n_real = active, kernel, n_real
        ends = ends_of(h, out, active), ends_of(c, cell, active)
        return unpack(out[:, :n_real], active, h.shape[1]), *ends

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        w_gates, project, *kept = ctx.saved_tensors
        tensors = dict(zip(ctx.names, kept, strict=True))
        kernel, active, n_real = ctx.kernel, ctx.active, ctx.n_real
        _, n_rows, most, _, n_x, dim, _ = ctx.sizes
        dh, dc = (g.clone(memory_format=torch.contiguous_format) for g in grads[1:])
        d_gates = _zeros_from(n_real, torch.empty_like(tensors["gates"], dtype=_LOW))  # (S, N, 4C)
        d_shown = None
        if project is not None:
            d_shown = _zeros_from(n_real, dh.new_empty(len(dh), n_rows, dim, dtype=_LOW))
        tensors["w_state_back"] = panels(w_gates[..., n_x:].mT, kernel)
        if project is not None:
            tensors["w_project_back"] = panels(project.mT, kernel)
        layer = _arguments(ctx.sizes, tensors, ctx.clips)
        d_out = dh.new_empty(len(dh), n_rows, dim)
        d_out[:, :n_real] = pack(grads[0], active)
        found = _Gradients(*map(address, (d_out, dh, dc, d_shown, d_gates)))
        checked(kernel.library.elmore_layer_bf16_back(ctypes.byref(layer), ctypes.byref(found)))
        d_x = unpack(torch.bmm(d_gates, w_gates[..., :n_x])[:, :n_real].float(), active, most)
        d_weights = _untiled(torch.bmm(d_gates.mT, tensors["in"]), kernel)  # (S, 4C, K)
        ones = d_gates.new_ones(len(d_gates), 1, n_rows)  # a product sums faster than `sum`
        d_bias = _untiled(torch.bmm(ones, d_gates).mT, kernel).squeeze(-1).float()
        d_project = None
        if d_shown is not None:
            d_project = torch.bmm(d_shown.mT, tensors["hidden"]).float()  # (S, D, C)
        d_input, d_state = (part.float() for part in d_weights.split([n_x, dim], dim=-1))
        return d_x, dh, dc, d_input, d_bias, d_state, d_project, None, None, None


def _zeros_from(n: int, rows: Tensor) -> Tensor:
    """(S, N, …), whose rows from `n` on become zero."""
    rows[:, n:] = 0
    return rows


def _arguments(sizes: tuple[int, ...], tensors: dict[str, Tensor | None], clips: Clips) -> _Layer:
    layer = _Layer(*sizes, torch.get_num_threads())
    for name, tensor in tensors.items():
        setattr(layer, name, address(tensor))
    layer.cell_clip, layer.proj_clip = (math.inf if clip is None else clip for clip in clips)
    return layer


def _tiled(w: Tensor, kernel: Kernel) -> Tensor:
    """Rows by gate -> rows by tile: (S, 4C, K) -> (S, 4C, K)."""
    tiles: Tensor = w.unflatten(1, (GATES, -1, kernel.lanes))
    return tiles.transpose(1, 2).flatten(1, 3)


def _untiled(w: Tensor, kernel: Kernel) -> Tensor:
    tiles: Tensor = w.unflatten(1, (-1, GATES, kernel.lanes))
    return tiles.transpose(1, 2).flatten(1, 3)
