"""The other way into a biLM: one learned vector per vocabulary word, no spelling."""

# W words, D output dim
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen


class WordTableConfig(Frozen):
    """A table of word vectors, indexed by the model's own vocabulary."""

    kind: Literal["words"] = "words"
    n_words: int = Field(ge=1)
    dim: int = Field(ge=1)


class WordTable(nn.Module):
    """Look words up; the row of a word is its id."""

    def __init__(self, config: WordTableConfig):
        super().__init__()
        self.config = config
        table = torch.empty(config.n_words, config.dim)
        self.embed = nn.Embedding(config.n_words, config.dim, _weight=table)
        if not table.is_meta:
            nn.init.normal_(table)

    def forward(self, rows: Tensor) -> Tensor:
        vectors: Tensor = self.embed(rows.squeeze(1))  # (W, 1) -> (W, D)
        return vectors
