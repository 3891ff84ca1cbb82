"""Highway layers: each unit decides how much of its input to carry past a small network."""

# N rows, F features
import torch
from torch import Tensor, nn


class Highway(nn.Module):
    """y = g · relu(candidate) + (1 − g) · x, once per layer; one product gives both halves."""

    def __init__(self, dim: int, n_layers: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(n_layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            candidate, gate = layer(x).chunk(2, dim=-1)  # (N, F) each
            x = torch.lerp(x, torch.relu(candidate), torch.sigmoid(gate))
        return x
