"""Layer norm the way AllenNLP wrote it: over the deviation, with eps outside of the root."""

# D features
import torch
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """gamma (x - mean) / (std + eps) + beta. torch's own has eps under the root instead."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        std, mean = torch.std_mean(x, dim=-1, correction=0, keepdim=True)
        return self.gamma * (x - mean) / (std + self.eps) + self.beta  # (..., D)
