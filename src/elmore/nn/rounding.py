"""Autocast rounds products to 8 bits; what must not be rounded is computed in full here."""

import torch
from torch import Tensor

_STEP = 64  # rows


def widened(x: Tensor) -> Tensor:
    """What autocast has rounded, in float32; all else as it is."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full(device: torch.device) -> torch.autocast:
    """A context without autocast."""
    return torch.autocast(device.type, enabled=False)


def free_rows(n: int, device: torch.device) -> int:
    """How many rows of nothing products with `n` rows should have besides. For every new number of
    rows, PyTorch prepares a product that autocast rounds on a CPU: that takes time, and memory that
    is never freed. So only multiples of 64 occur. 0 where autocast is off, and on other devices."""
    return -n % _STEP if device.type == "cpu" and torch.is_autocast_enabled("cpu") else 0
