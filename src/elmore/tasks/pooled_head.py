"""The head of a fine-tuned language model: two layers on what is pooled of a text, each after a
batch norm and dropout.
"""

# B texts, D pooled dim, H hidden units, K labels
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.nn.dropout import Dropout
from elmore.tasks.encoded import Batches, Dims, Places, nth_inputs
from elmore.tasks.encoders.tuned_lm import LMTuningConfig
from elmore.tasks.linear_heads import LabelScores


class BatchNorm(nn.Module):
    """Over the rows of a batch in training, by running means in use; one row alone has no spread,
    so it is normed as in use. torch's own also counts its batches, which nothing here needs."""

    mean: Tensor
    variance: Tensor

    def __init__(self, dim: int, momentum: float = 0.1):
        super().__init__()
        self.momentum = momentum
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        learns = self.training and len(x) > 1
        running, affine = (self.mean, self.variance), (self.weight, self.bias)
        return F.batch_norm(x, *running, *affine, training=learns, momentum=self.momentum)


class PooledHead(LabelScores):
    """norm, dropout, H units, ReLU; norm, dropout, K labels."""

    def __init__(self, labels: Sequence[str], dims: Dims, config: LMTuningConfig):
        super().__init__(labels)
        sizes = [(dims.pooled, config.hidden), (config.hidden, len(self.labels))]
        layers: list[nn.Module] = []
        for (before, after), dropout in zip(sizes, config.dropout, strict=True):
            layers += [BatchNorm(before)] if config.norm else []
            layers += [Dropout(dropout), nn.Linear(before, after), nn.ReLU()]
        self.classify = nn.Sequential(*layers[:-1])

    def scores(self, encoded: Batches, places: Places) -> Tensor:
        scores: Tensor = self.classify(nth_inputs(encoded, places, 0).pooled)  # (B, K)
        return scores
