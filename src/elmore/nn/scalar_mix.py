"""ELMo's mix: γ Σ softmax(w)_j h_j, learned by each task."""

# L layers, B sentences, T words, D vector dim
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmore.errors import ConfigError


class ScalarMix(nn.Module):
    """A weighted sum of a model's layers: softmax weights that start equal, one scale γ."""

    def __init__(
        self,
        n_layers: int,
        *,
        layer_norm: bool = False,
        initial: Sequence[float] | None = None,
        trainable: bool = True,
        l2: float = 0.0,
        eps: float = 1e-12,
    ):
        super().__init__()
        initial = [0.0] * n_layers if initial is None else list(initial)
        if len(initial) != n_layers:
            raise ConfigError(f"{len(initial)} mix weights given for {n_layers} layers.")
        self.scalars = nn.Parameter(torch.tensor(initial, dtype=torch.float32), trainable)  # (L,)
        self.gamma = nn.Parameter(torch.tensor(1.0), trainable)
        self.layer_norm, self.l2, self.eps = layer_norm, l2, eps

    @property
    def weights(self) -> Tensor:
        """s_j: what share of the mix each layer has."""
        return torch.softmax(self.scalars, dim=0)  # (L,)

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        if self.layer_norm:
            layers = torch.stack([_normalize(layer, mask, self.eps) for layer in layers])
        return self.gamma * torch.einsum("l,lbtd->btd", self.weights, layers)  # (B, T, D)

    def penalty(self) -> Tensor:
        """L2 on the weights before the softmax: pulls the mix toward the plain average."""
        return self.l2 * self.scalars.square().sum()


def _normalize(layer: Tensor, mask: Tensor, eps: float) -> Tensor:
    """One mean and variance over every number of every real word of the batch, as in AllenNLP."""
    keep = mask.unsqueeze(-1).to(layer.dtype)  # (B, T, 1)
    n = keep.sum().clamp(min=1) * layer.shape[-1]
    mean = (layer * keep).sum() / n
    variance = ((layer - mean) * keep).square().sum() / n
    return (layer - mean) / torch.sqrt(variance + eps)
