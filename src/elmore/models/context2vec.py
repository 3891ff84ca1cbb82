"""context2vec: one LSTM reads the words before a place, another those after it, and a small network
joins them into a vector of the place. It is learned so that this vector tells the word that stands
there, by the word's own vector, from words drawn by chance.

    c_i = W_2 relu(W_1 [left_{i-1}; right_{i+1}])        p(w at i) = σ(c_i · t_w)

Layer 0 is t, the word without its context; layer 1 is c, the context without its word.
"""

# B sentences, T words in the longest with marks, H LSTM dim, D vector dim, N places, k words drawn
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.models.layers import LayerModel, LayerStates
from elmore.models.static_table import mean_of_words
from elmore.nn.rounding import in_full, widened
from elmore.text.reader import WordBatch


class Context2vecConfig(Frozen):
    """Defaults are the published sizes."""

    kind: Literal["context2vec"] = "context2vec"
    n_words: int = Field(default=1, ge=1)
    """Marks included."""
    word_dim: int = Field(default=300, ge=1)
    """Of what each LSTM reads, from a table of its own."""
    hidden: int = Field(default=600, ge=1)
    """Of each LSTM."""
    dim: int = Field(default=600, ge=1)
    """Of the vectors of words and of contexts."""


class Context2vec(LayerModel):
    """Words without context, and contexts without their word."""

    context_free = True
    n_layers = 2

    def __init__(self, config: Context2vecConfig):
        super().__init__()
        self.config: Context2vecConfig = config
        self.dim = config.dim
        self.vectors = nn.Parameter(torch.zeros(config.n_words, config.dim))  # t
        shape = (config.n_words, config.word_dim)
        self.left_words, self.right_words = (nn.Parameter(torch.empty(shape)) for _ in range(2))
        self.left = nn.LSTM(config.word_dim, config.hidden, batch_first=True)
        self.right = nn.LSTM(config.word_dim, config.hidden, batch_first=True)
        self.hidden = nn.Linear(2 * config.hidden, 2 * config.hidden)
        self.output = nn.Linear(2 * config.hidden, config.dim)
        for table in (self.left_words, self.right_words):
            nn.init.normal_(table, std=config.word_dim**-0.5)

    def forward(self, batch: WordBatch) -> LayerStates:
        device = self.vectors.device
        ids = torch.from_numpy(batch.spelled[:, 0][batch.index]).to(device)  # (B, T)
        lengths = torch.from_numpy(batch.lengths).to(device)
        place = torch.arange(ids.shape[1] - 2, device=device)
        mask = place < (lengths - 2).unsqueeze(1)  # (B, T - 2)
        words = F.embedding(ids[:, 1:-1], self.vectors)
        layers = torch.stack([words, self.contexts(ids, lengths)])  # (2, B, T - 2, D)
        return LayerStates(layers * mask.unsqueeze(-1), mask)

    def contexts(self, ids: Tensor, lengths: Tensor, *, sparse: bool = False) -> Tensor:
        """ids (B, T) with both marks -> the context of every word (B, T - 2, D). With `sparse` the
        gradients of the tables are."""
        backward = (lengths.unsqueeze(1) - 1 - torch.arange(ids.shape[1], device=ids.device)).clamp(
            min=0
        )  # (B, T), the places from the end of each row
        flipped = ids.gather(1, backward)
        with in_full(ids.device):  # autocast would round the cells too
            left, _ = self.left(F.embedding(ids, self.left_words, sparse=sparse))  # (B, T, H)
            right, _ = self.right(F.embedding(flipped, self.right_words, sparse=sparse))
        after = backward[:, 2:].unsqueeze(-1).expand(-1, -1, right.shape[2])  # of the next word
        joined = torch.cat([left[:, :-2], right.gather(1, after)], dim=-1)
        found: Tensor = self.output(torch.relu(self.hidden(joined)))
        return found

    def scores(self, ids: Tensor, lengths: Tensor, drawn: Tensor, known: Tensor) -> Tensor:
        """Of the word at each of N places, and of the words drawn for it: drawn (N, k), known
        (B, T - 2) says which places these are -> (N, 1 + k)."""
        contexts = widened(self.contexts(ids, lengths, sparse=True)[known])  # (N, D)
        words = torch.cat([ids[:, 1:-1][known].unsqueeze(1), drawn], dim=1)
        vectors = F.embedding(words, self.vectors, sparse=True)  # (N, 1 + k, D)
        with in_full(ids.device):
            return torch.einsum("nd,nkd->nk", contexts, vectors)

    def static(self, batch: WordBatch) -> Tensor:
        """The mean of an input's words."""
        states = self(batch)
        return mean_of_words(states.layers[0], states.mask)

    def floors(self) -> list[list[nn.Parameter]]:
        top = [*self.hidden.parameters(), *self.output.parameters()]
        lstms = [*self.left.parameters(), *self.right.parameters()]
        return [top, lstms, [self.vectors, self.left_words, self.right_words]]


def told_apart_loss(scores: Tensor, same: Tensor) -> Tensor:
    """Σ -log σ(s) of the words themselves (the first column) and -log σ(-s) of those drawn; where
    `same` (N, k) a word drawn is the word itself and does not count."""
    drawn = F.softplus(scores[:, 1:]).masked_fill(same, 0.0)
    return F.softplus(-scores[:, 0]).sum() + drawn.sum()
