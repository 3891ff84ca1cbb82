"""Autocast rounds products to 8 bits; what must not be rounded is computed in full here."""

import torch
from torch import Tensor


def widened(x: Tensor) -> Tensor:
    """What autocast has rounded, in float32; all else as it is."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full(device: torch.device) -> torch.autocast:
    """A context without autocast."""
    return torch.autocast(device.type, enabled=False)
