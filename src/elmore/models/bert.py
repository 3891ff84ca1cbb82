"""BERT: pieces of words, each of which sees every other, from the first layer on."""

# L layers, B inputs, T words in the longest, W words of all, P pieces of all words, R rows,
# N positions of all rows, D dim, V pieces in the vocabulary
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.dropout import Dropout
from elmore.nn.post_norm import ACTIVATIONS, Activation, Group, PostNormBlock
from elmore.nn.rounding import free_rows
from elmore.text.piece_reader import MIN_POSITIONS, PieceBatch
from elmore.text.reader import IntArray

Pooling = Literal["first", "mean"]
"""A word's vector: that of its first piece, or the mean of all of its pieces."""
MASKED, NEXT = "mlm", "nsp"
"""The names of BERT's own heads in a checkpoint."""


class BertConfig(Frozen):
    """Sizes of a BERT. Defaults are those of the base models."""

    kind: Literal["bert"] = "bert"
    n_pieces: int = Field(default=30522, ge=1)
    dim: int = Field(default=768, ge=1)
    n_layers: int = Field(default=12, ge=1, le=256)
    n_heads: int = Field(default=12, ge=1)
    ff_dim: int = Field(default=3072, ge=1)
    max_positions: int = Field(default=512, ge=MIN_POSITIONS)
    n_segments: int = Field(default=2, ge=0)
    """0: no table of segments, as in DistilBERT."""
    activation: Activation = "gelu"
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On the embeddings and on what each block adds, in training."""
    attention_dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    norm_eps: float = Field(default=1e-12, gt=0.0)
    pooler: bool = True
    """Whether there is a layer above `[CLS]`, for heads that judge a text or a pair."""
    pieces: Pooling = "first"

    @model_validator(mode="after")
    def _fits(self) -> "BertConfig":
        if self.dim % self.n_heads:
            raise ValueError(f"dim={self.dim} is not divisible by n_heads={self.n_heads}")
        return self


class PieceEmbedding(nn.Module):
    """LN(piece + position + segment)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.pieces = nn.Embedding(config.n_pieces, config.dim)
        self.positions = nn.Embedding(config.max_positions, config.dim)
        n_segments = config.n_segments
        self.segments = nn.Embedding(n_segments, config.dim) if n_segments else None
        self.norm = nn.LayerNorm(config.dim, config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        x = self.pieces(ids)
        if self.segments is not None:
            x = x + self.segments(segments)
        y: Tensor = self.dropout(self.norm(x + self.positions(positions)))
        return y  # (N, D)


class Bert(LayerModel):
    """Rows of pieces -> the embedding output and the output of every block."""

    context_free = False

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config: BertConfig = config
        self.n_layers, self.dim = config.n_layers + 1, config.dim
        self.embed = PieceEmbedding(config)
        self.blocks = nn.ModuleList(
            PostNormBlock(
                config.dim,
                config.n_heads,
                config.ff_dim,
                activation=config.activation,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                norm_eps=config.norm_eps,
            )
            for _ in range(config.n_layers)
        )
        self.pooler = nn.Linear(config.dim, config.dim) if config.pooler else None
        initialize(self)

    def forward(self, batch: PieceBatch) -> LayerStates:
        device = self.embed.pieces.weight.device
        ids, segments = (torch.from_numpy(a).to(device) for a in (batch.ids, batch.segments))
        outputs = self.run(ids, segments, batch.lengths)
        layers = torch.stack([self._words(x, batch) for x in outputs])  # (L + 1, W, D)
        begins = torch.from_numpy(batch.begins).to(device)
        return padded(layers, batch.n_words, self.pool(outputs[-1].index_select(0, begins)))

    def run(
        self, ids: Tensor, segments: Tensor, lengths: IntArray, top: Tensor | None = None
    ) -> list[Tensor]:
        """ids and segments (N,) of rows one after another, of lengths (R,), equal ones together ->
        the embedding output and that of each block, (N, D) each, marks included. With `top` (M,)
        the last one is of these places alone, (M, D)."""
        n = len(ids)
        ids, segments, lengths = _filled(ids, segments, lengths)
        places = None if top is None else F.pad(top, (0, free_rows(len(top), top.device)))
        starts = np.cumsum(lengths) - lengths
        positions = np.arange(len(ids)) - np.repeat(starts, lengths)
        x = self.embed(ids, segments, torch.from_numpy(positions).to(ids.device))
        outputs, groups = [x], equal_lengths(lengths)
        for i, block in enumerate(self.blocks, start=1):
            outputs.append(block(outputs[-1], groups, places if i == len(self.blocks) else None))
        *below, last = outputs
        return [*(x[:n] for x in below), last[: n if top is None else len(top)]]

    def pool(self, begins: Tensor) -> Tensor | None:
        """tanh(W h + b) of the top layer at `[CLS]`, (B, D) -> (B, D); None without a pooler."""
        return None if self.pooler is None else torch.tanh(self.pooler(begins))

    def static(self, batch: PieceBatch) -> Tensor:
        """The mean of the rows of an input's pieces, marks left out."""
        device = self.embed.pieces.weight.device
        ids = torch.from_numpy(batch.ids[batch.places]).to(device)
        inputs = np.repeat(np.arange(len(batch.n_words)), batch.n_words)  # (W,)
        return means(self.embed.pieces(ids), inputs[batch.words], len(batch.n_words))  # (B, D)

    def floors(self) -> list[list[nn.Parameter]]:
        """The pooler with the top block, then the blocks below it, then the embeddings."""
        blocks = [[*block.parameters()] for block in reversed(self.blocks)]
        pooler = [] if self.pooler is None else [*self.pooler.parameters()]
        return [[*pooler, *blocks[0]], *blocks[1:], [*self.embed.parameters()]]

    def _words(self, x: Tensor, batch: PieceBatch) -> Tensor:
        """(N, D) -> (W, D)."""
        places = batch.places
        if self.config.pieces == "first":
            places = places[np.flatnonzero(np.diff(batch.words, prepend=-1))]
        found = x.index_select(0, torch.from_numpy(places).to(x.device))
        return (
            found
            if self.config.pieces == "first"
            else means(found, batch.words, int(batch.n_words.sum()))
        )


class MaskedHead(nn.Module):
    """Which piece stands here: LN(act(W h)) Eᵀ + b, with the model's own table of pieces as E."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.dim, config.dim)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.dim, config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.n_pieces))
        initialize(self)

    def forward(self, h: Tensor, table: Tensor) -> Tensor:
        """h (..., D), table (V, D) -> logits (..., V)."""
        return F.linear(self.norm(self.activation(self.dense(h))), table, self.bias)


def next_head(config: BertConfig) -> nn.Linear:
    """Whether the second text follows the first, from `pooled`: 0 it does, 1 it is a random one."""
    head = nn.Linear(config.dim, 2)
    initialize(head)
    return head


def initialize(module: nn.Module, std: float = 0.02) -> None:
    """As the original: a normal distribution cut off at two deviations, biases zero."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)


def _filled(ids: Tensor, segments: Tensor, lengths: IntArray) -> tuple[Tensor, Tensor, IntArray]:
    """With rows of one position at the end, where products want them: no other row sees them."""
    free = free_rows(len(ids), ids.device)
    return F.pad(ids, (0, free)), F.pad(segments, (0, free)), with_free(lengths, free)


def with_free(lengths: IntArray, free: int) -> IntArray:
    return np.concatenate([lengths, np.ones(free, dtype=lengths.dtype)])


def equal_lengths(lengths: IntArray) -> list[Group]:
    """(rows, length) of rows with the same length that follow each other."""
    firsts = np.flatnonzero(np.diff(lengths, prepend=-1))
    counts = np.diff(firsts, append=len(lengths))
    return [(int(b), int(t)) for b, t in zip(counts, lengths[firsts], strict=True)]


def means(x: Tensor, owners: IntArray, n: int) -> Tensor:
    """The mean of the pieces of each of `n` words or inputs: (P, D) -> (n, D); zero for none."""
    counts = torch.from_numpy(np.bincount(owners, minlength=n)).to(x.device)
    index = torch.from_numpy(owners).to(x.device)
    sums = x.new_zeros(n, x.shape[-1]).index_add(0, index, x)
    return sums / counts.clamp(min=1).unsqueeze(1)


def padded(layers: Tensor, n_words: IntArray, pooled: Tensor | None) -> LayerStates:
    """layers (L, W, D) of all inputs one after another -> (L, B, T, D)."""
    longest = int(n_words.max(initial=0))
    mask = np.arange(longest) < n_words[:, None]  # (B, T)
    shape = (len(layers), *mask.shape, layers.shape[-1])
    places = torch.from_numpy(np.flatnonzero(mask)).to(layers.device)
    padded = layers.new_zeros(shape).flatten(1, 2).index_copy(1, places, layers)
    return LayerStates(padded.view(shape), torch.from_numpy(mask).to(layers.device), pooled)
