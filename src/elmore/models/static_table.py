"""Static word vectors as a model: one layer, a table, the same vector in every sentence. What
`elmore pretrain --recipe sgns` and `glove` make; words that are not listed are zero.
"""

# B sentences, T words in the longest with marks, W distinct words, D vector dim
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.models.bilm import without_marks
from elmore.models.layers import LayerModel, LayerStates
from elmore.text.reader import WordBatch


class StaticConfig(Frozen):
    """How many words, marks included, and how many numbers for each."""

    kind: Literal["static"] = "static"
    n_words: int = Field(ge=1)
    dim: int = Field(ge=1)


class StaticTable(LayerModel):
    """Words are looked up, and nothing else."""

    context_free = True
    n_layers = 1

    def __init__(self, config: StaticConfig):
        super().__init__()
        self.config: StaticConfig = config
        self.dim = config.dim
        self.vectors = nn.Parameter(torch.zeros(config.n_words, config.dim))

    def forward(self, batch: WordBatch) -> LayerStates:
        device = self.vectors.device
        arrays = (batch.spelled, batch.index, batch.lengths)
        spelled, index, lengths = (torch.from_numpy(array).to(device) for array in arrays)
        words = F.embedding(spelled.squeeze(1), self.vectors)  # (W, D)
        x = F.embedding(index, words)  # (B, T, D)
        mask = torch.arange(index.shape[1], device=device) < lengths.unsqueeze(1)  # (B, T)
        return without_marks(LayerStates(x.unsqueeze(0), mask))

    def static(self, batch: WordBatch) -> Tensor:
        """The mean of an input's words."""
        states = self(batch)
        return mean_of_words(states.layers[0], states.mask)

    def floors(self) -> list[list[nn.Parameter]]:
        return [[self.vectors]]


def mean_of_words(x: Tensor, mask: Tensor) -> Tensor:
    """(B, T, D), zero where there is no word -> (B, D)."""
    return x.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
