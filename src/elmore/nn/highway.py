"""Highway layers: each unit decides how much of its input to carry past a small network."""

# N rows, F features
import torch
from torch import Tensor, nn


class Highway(nn.Module):
    """y = g · relu(candidate) + (1 − g) · x, once per layer; one product gives both halves."""

    def __init__(self, dim: int, n_layers: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(n_layers))

    def reset_parameters(self) -> None:
        """The original initialization: most of the input is carried at first."""
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
            nn.init.constant_(layer.bias.data[layer.in_features :], -2.0)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            candidate, gate = layer(x).to(x.dtype).chunk(2, dim=-1)  # (N, F) each
            x = torch.lerp(x, torch.relu(candidate), torch.sigmoid(gate))
        return x
