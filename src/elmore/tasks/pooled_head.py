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
from elmore.tasks.linear_heads import HasLabel, LabelScores


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
    """norm, dropout, H units, ReLU; norm, dropout, K labels. Of several language models (forward
    and backward) each has a classifier of its own, and their probabilities are averaged."""

    def __init__(self, labels: Sequence[str], dims: Dims, config: LMTuningConfig, n_models: int):
        super().__init__(labels)
        sizes = (dims.pooled // n_models, config.hidden, len(self.labels))
        self.classifiers = nn.ModuleList(_classifier(sizes, config) for _ in range(n_models))

    def each(self, encoded: Batches, places: Places) -> list[Tensor]:
        """The scores of each model, (B, K)."""
        pooled = nth_inputs(encoded, places, 0).pooled
        assert pooled is not None  # `dims` says so
        parts = pooled.chunk(len(self.classifiers), dim=-1)
        return [classify(x) for classify, x in zip(self.classifiers, parts, strict=True)]

    def scores(self, encoded: Batches, places: Places) -> Tensor:
        """The mean probability."""
        return torch.stack([x.softmax(dim=-1) for x in self.each(encoded, places)]).mean(dim=0)

    def loss(self, encoded: Batches, places: Places, examples: Sequence[HasLabel]) -> Tensor:
        """The sum: each model learns as if it were alone."""
        found = self.each(encoded, places)
        return torch.stack([self.cross_entropy(scores, examples) for scores in found]).sum()


def _classifier(sizes: tuple[int, int, int], config: LMTuningConfig) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after, dropout in zip(sizes, sizes[1:], config.dropout, strict=False):
        layers += [BatchNorm(before)] if config.norm else []
        layers += [Dropout(dropout), nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
