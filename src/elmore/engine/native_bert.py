"""A BERT block by the compiled kernel: weights packed the way bert.cpp reads them, in float32 or in
int8 with one scale for every group of inputs of an output.
"""

# n positions of a batch, R rows, K inputs, M outputs, D dim
import ctypes
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.engine.kernel import Kernel
from elmore.nn.post_norm import Activation, PostNormBlock
from elmore.text.reader import IntArray

_ACTIVATIONS: dict[Activation | None, int] = {None: 0, "gelu": 1, "gelu_new": 2, "relu": 3}
_LARGEST = 64  # of a weight in int8; see bert.cpp


class ProductArguments(ctypes.Structure):
    """`Product` of bert.cpp."""

    _fields_ = (
        ("panels", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("totals", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("activation", ctypes.c_int64),
    )


class NativeProduct:
    """An nn.Linear and the activation after it, for inference."""

    def __init__(
        self, linear: nn.Linear, kernel: Kernel, *, int8: bool, activation: Activation | None = None
    ):
        self._library, self._int8, self.outputs = kernel.library, int8, linear.out_features
        width = int(self._library.elmore_product_width())
        weight, bias = linear.weight.detach().float(), linear.bias.detach().float()
        more = -len(weight) % width
        rows = F.pad(weight, (0, 0, 0, more)).unflatten(0, (-1, width))  # (M / width, width, K)
        group = int(self._library.elmore_product_group())
        packed = _bytes(rows, group) if int8 else _Packed(rows.mT.contiguous())
        self._kept = (packed, F.pad(bias, (0, more)))  # the kernel has only their addresses
        self._arguments = ProductArguments(
            panels=packed.panels.data_ptr(),
            scales=None if packed.scales is None else packed.scales.data_ptr(),
            totals=None if packed.totals is None else packed.totals.data_ptr(),
            bias=self._kept[1].data_ptr(),
            inputs=linear.in_features,
            outputs=linear.out_features,
            activation=_ACTIVATIONS[activation],
        )

    def __call__(self, x: Tensor, threads: int = 1) -> Tensor:
        """(n, K) -> (n, M)."""
        x, y = x.contiguous(), x.new_empty(len(x), self.outputs)
        failed = self._library.elmore_product(
            ctypes.addressof(self._arguments),
            self._int8,
            x.data_ptr(),
            len(x),
            threads,
            y.data_ptr(),
        )
        return _checked(failed, y)


class NativeBlock:
    """A PostNormBlock for inference; the same numbers for a row, whatever rows stand beside it."""

    def __init__(self, block: PostNormBlock, kernel: Kernel, *, int8: bool):
        def product(linear: nn.Linear, activation: Activation | None = None) -> NativeProduct:
            return NativeProduct(linear, kernel, int8=int8, activation=activation)

        self._library, self._n_heads = kernel.library, block.attention.n_heads
        self._qkv, self._out = product(block.attention.qkv), product(block.attention.out)
        self._expand = product(block.expand, block.activation)
        self._contract = product(block.contract)
        self._norms = (block.norm_1, block.norm_2)

    def __call__(self, x: Tensor, lengths: IntArray, places: Tensor | None, threads: int) -> Tensor:
        """(n, D) of rows of these lengths -> (n, D), or of some places alone."""
        mixed = self._attention(self._qkv(x, threads), lengths)
        if places is not None:
            x, mixed = x.index_select(0, places), mixed.index_select(0, places)
        a = self._add_norm(x, self._out(mixed, threads), self._norms[0])
        return self._add_norm(a, self._contract(self._expand(a, threads), threads), self._norms[1])

    def _attention(self, qkv: Tensor, lengths: IntArray) -> Tensor:
        dim = qkv.shape[1] // 3
        mixed = qkv.new_empty(len(qkv), dim)
        sizes = (len(lengths), self._n_heads, dim // self._n_heads)
        failed = self._library.elmore_attention(
            qkv.data_ptr(), lengths.ctypes.data, *sizes, mixed.data_ptr()
        )
        return _checked(failed, mixed)

    def _add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
        """LN(x + y), written over y."""
        self._library.elmore_add_norm(
            x.data_ptr(),
            *x.shape,
            norm.weight.data_ptr(),
            norm.bias.data_ptr(),
            norm.eps,
            y.data_ptr(),
        )
        return y


@dataclass(frozen=True, slots=True)
class _Packed:
    panels: Tensor
    scales: Tensor | None = None  # (M / width, groups, width)
    totals: Tensor | None = None  # the same


def _bytes(rows: Tensor, group: int) -> _Packed:
    """(M / width, width, K) -> panels (M / width, K / 4, width, 4), inputs in whole groups."""
    grouped = F.pad(rows, (0, -rows.shape[-1] % group)).unflatten(-1, (-1, group))
    scales = grouped.abs().amax(dim=-1) / _LARGEST  # (M / width, width, groups)
    scales[scales == 0] = 1.0
    rounded = (grouped / scales.unsqueeze(-1)).round_()  # (M / width, width, groups, group)
    fours = rounded.to(torch.int8).flatten(2).unflatten(-1, (-1, 4))
    totals = -rounded.sum(dim=-1).to(torch.int32)
    return _Packed(
        fours.transpose(1, 2).contiguous(), scales.mT.contiguous(), totals.mT.contiguous()
    )


def _checked(failed: int, made: Tensor) -> Tensor:
    if failed:
        raise MemoryError("The kernel could not allocate memory for its rows.")
    return made
