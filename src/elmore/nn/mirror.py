"""Sentences read from their end: positions that reverse each row within its own length."""

# B sentences, T words in the longest, D vector dim
import torch
from torch import Tensor


def mirror(lengths: Tensor, n_words: int) -> Tensor:
    """For each row, the positions that read its words backwards and leave its padding in place."""
    step = torch.arange(n_words, device=lengths.device)
    end = lengths.unsqueeze(1)  # (B, 1)
    return torch.where(step < end, end - 1 - step, step)  # (B, T)


def take(x: Tensor, positions: Tensor) -> Tensor:
    """x (B, T, D) at the positions (B, T) of each row."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))  # (B, T, D)
