"""A linear head as int8 rows, each with a scale: a quarter of float32, half of float16. It is
widened to float32 when it is read, so that whatever uses a head need not know.
"""

# V rows, D vector dim
from pathlib import Path

import torch
from torch import Tensor, nn

from elmore.checkpoint.bilm import build_softmax
from elmore.checkpoint.weight_files import open_safetensors
from elmore.errors import FormatError

_LARGEST = 127
_KINDS = {"rows": "I8", "scales": "F32", "bias": "F32"}


def to_int8_rows(head: nn.Linear) -> dict[str, Tensor]:
    """Each number is off by at most half a step of its row: the row's largest number / 254."""
    weight = head.weight.detach().float()  # (V, D)
    scales = weight.abs().amax(dim=1, keepdim=True) / _LARGEST  # (V, 1)
    steps = weight / torch.where(scales > 0, scales, 1.0)
    rows = steps.round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
    return {"rows": rows, "scales": scales[:, 0], "bias": head.bias.detach().float()}


def read_int8_rows(path: Path, dim: int) -> nn.Linear:
    """What `to_int8_rows` has made, from a safetensors file."""
    with open_safetensors(path) as file:
        names = list(file.keys())
        found = {name: file.get_slice(name) for name in names}
        kinds = {name: part.get_dtype() for name, part in found.items()}
        if kinds != _KINDS:
            raise FormatError(f"{path}: has {kinds}; expected {_KINDS}.")
        n_words = found["bias"].get_shape()[0] if found["bias"].get_shape() else 0
        shapes = {"rows": [n_words, dim], "scales": [n_words], "bias": [n_words]}
        for name, shape in shapes.items():
            if (there := list(found[name].get_shape())) != shape:
                raise FormatError(
                    f"{path}: '{name}' has shape {there}, but its config calls for {shape}."
                )
        rows, scales, bias = (file.get_tensor(name).clone() for name in _KINDS)
    if not (torch.isfinite(scales).all() and torch.isfinite(bias).all()):
        raise FormatError(f"{path}: contains NaN or infinite values; damaged.")
    return build_softmax(rows.float() * scales[:, None], bias)
