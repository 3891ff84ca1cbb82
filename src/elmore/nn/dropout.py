"""Dropout that is quick on CPUs: four decisions from each random number instead of one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16  # the chance is kept to 1/65536


class Dropout(nn.Module):
    """Zero each number with chance `p` in training, and scale the others up to make up for it."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * self._scale(x)

    def _scale(self, x: Tensor) -> Tensor:
        """0 or 1 / (1 - p) for every number of x."""
        drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = drawn.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over all int16
        keep = levels >= round(self.p * _LEVELS) - _LEVELS // 2
        return keep.to(x.dtype).mul_(1 / (1 - self.p))
