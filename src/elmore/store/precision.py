"""Vectors as bytes and back. With int8 every word of every layer has its own scale, its largest
number / 127, so that a word with large numbers does not make the others imprecise.
"""

# K kept layers, n words, D vector dim
import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.embedding import Vectors
from elmore.errors import InputError

Precision = Literal["float32", "float16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "int8")

_BYTES = {"float32": 4, "float16": 2, "int8": 1}
_TORCH = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8}
_SCALE_BYTES = 4
_ALIGNED = 4  # blocks are padded to this many bytes, so that float32 scales are aligned
_LARGEST = 127


class Stored(NamedTuple):
    """A sentence as it is on disk, not copied. Vectors are `values`, or `values * scales`."""

    values: NDArray[Any]  # (K, n, D)
    scales: Vectors | None  # (K, n, 1), with int8 only


@dataclass(frozen=True, slots=True)
class Codec:
    """One way of writing the vectors of a sentence as a block of bytes."""

    precision: Precision
    n_layers: int
    dim: int

    @property
    def word_bytes(self) -> int:
        scales = _SCALE_BYTES if self.precision == "int8" else 0
        return self.n_layers * (self.dim * _BYTES[self.precision] + scales)

    def n_bytes(self, n_words: int) -> int:
        """Of a sentence's block."""
        return -(-n_words * self.word_bytes // _ALIGNED) * _ALIGNED

    def encode(self, vectors: Vectors) -> bytes:
        """(K, n, D) -> a block."""
        values = torch.from_numpy(np.ascontiguousarray(vectors, np.float32))
        match self.precision:
            case "int8":
                data = _quantized(values)
            case "float16":
                half = values.half()
                _check_finite(half, "float16", "65,504")
                data = half.numpy().tobytes()
            case "float32":
                data = values.numpy().tobytes()
        return data + bytes(-len(data) % _ALIGNED)

    def decode(self, block: Tensor, n_words: int) -> Tensor:
        """A block as a tensor of bytes -> (K, n, D) float32, copied."""
        values, scales = self._parts(block, n_words)
        if scales is not None:
            return values.float().mul_(scales)
        return values.clone() if values.dtype is torch.float32 else values.float()

    def stored(self, data: Any, offset: int, n_words: int) -> Stored:
        """The same numbers without a copy, at `offset` in a shard's bytes."""
        shape = (self.n_layers, n_words, self.dim)
        if not n_words:
            data, offset = bytes(1), 0  # NumPy refuses an empty buffer
        scales = None
        if self.precision == "int8":
            n = self.n_layers * n_words
            scales = np.frombuffer(data, np.float32, n, offset).reshape(*shape[:2], 1)  # (K, n, 1)
            offset += n * _SCALE_BYTES
        n = self.n_layers * n_words * self.dim
        return Stored(np.frombuffer(data, self.precision, n, offset).reshape(shape), scales)

    def _parts(self, block: Tensor, n_words: int) -> tuple[Tensor, Tensor | None]:
        shape = (self.n_layers, n_words, self.dim)
        scales = None
        begin, end = 0, n_words * self.word_bytes
        if self.precision == "int8":
            begin = self.n_layers * n_words * _SCALE_BYTES
            scales = block[:begin].view(torch.float32).view(*shape[:2], 1)  # (K, n, 1)
        return block[begin:end].view(_TORCH[self.precision]).view(shape), scales  # (K, n, D)


def _quantized(values: Tensor) -> bytes:
    """Scales, then numbers from -127 to 127."""
    scales = values.abs().amax(dim=-1, keepdim=True) / _LARGEST  # (K, n, 1)
    _check_finite(scales, "int8", "finite numbers")
    smallest = torch.finfo(torch.float32).tiny  # avoids 0 / 0 for a word of zeros
    codes = (values / scales.clamp(min=smallest)).round_().clamp_(-_LARGEST, _LARGEST)  # (K, n, D)
    codes = codes.to(torch.int8)
    return scales.numpy().tobytes() + codes.numpy().tobytes()


def _check_finite(values: Tensor, precision: str, most: str) -> None:
    if not torch.isfinite(values).all():
        raise InputError(
            f"A vector has a number that {precision} cannot represent ({most} at most); "
            "store it as float32."
        )


def as_tensor(data: Any) -> Tensor:
    """Bytes as a tensor that shares their memory. Nothing here writes to it, so torch's warning
    about read-only memory is ignored."""
    if len(data) == 0:
        return torch.empty(0, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.frombuffer(data, dtype=torch.uint8)
