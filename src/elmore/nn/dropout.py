"""Dropout that is fast on CPUs: each random number makes four decisions instead of one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16  # the resolution of the probability


class Dropout(nn.Module):
    """Zero each number with probability `p` in training, and scale the others up accordingly."""

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
