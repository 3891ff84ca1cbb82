"""Spelling to vector: character embeddings, convolutions of several widths, the maximum over the
word, highway layers, a projection. Context-free: one spelling, one vector, so each distinct word
of a batch is computed once.
"""

# W words, C characters in a row, V character ids, E character dim, k filter width, F filters,
# D output dim
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.transformer import LayerNorm

_WORDS_IN_A_GROUP = 256


class CharCNNConfig(Frozen):
    """How a spelling becomes a vector. Defaults are the published 2018 model."""

    kind: Literal["characters"] = "characters"
    n_characters: int = Field(default=262, ge=1)
    """Bytes and marks (`elmore.text.byte_reader`), or the items of a dictionary."""
    char_dim: int = Field(default=16, ge=1)
    filters: tuple[tuple[int, int], ...] = (
        (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
    )  # fmt: skip
    """(width, count) of each convolution, at most 1000."""
    activation: Literal["relu", "tanh"] = "relu"
    n_highway: int = Field(default=2, ge=0, le=1000)
    max_characters: int = Field(default=50, ge=3, le=1000)
    """Longer words are cut; the marks for word begin and end count as two."""
    dim: int = Field(default=512, ge=1)
    project: bool = True
    """False: no projection, and there are `dim` filters."""
    project_at: Literal["after_highway", "after_cnn"] = "after_highway"
    layer_norm: bool = False
    """On the finished vector; some Transformer ELMos have it."""
    norm_eps: float = 1e-13

    @model_validator(mode="after")
    def _fits(self) -> "CharCNNConfig":
        if not 0 < len(self.filters) <= 1000 or min(min(pair) for pair in self.filters) < 1:
            raise ValueError(
                f"filters={self.filters!s:.80}: expected (width, count) pairs from 1 up"
            )
        widest = max(width for width, _ in self.filters)
        if widest > self.max_characters:
            raise ValueError(f"filter width {widest} is over max_characters={self.max_characters}")
        if not self.project and self.n_filters != self.dim:
            raise ValueError(f"project=False with {self.n_filters} filters and dim={self.dim}")
        return self

    @property
    def n_filters(self) -> int:
        return sum(count for _, count in self.filters)


class Highway(nn.Module):
    """y = g · relu(candidate) + (1 − g) · x, once per layer: each unit decides how much of its
    input to carry past a small network. One product gives both halves."""

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


class CharCNN(nn.Module):
    """Spell words into vectors: embed, convolve, keep the maxima, highway, project."""

    def __init__(self, config: CharCNNConfig):
        super().__init__()
        self.config = config
        table = torch.empty(config.n_characters, config.char_dim)
        self.embed = nn.Embedding(config.n_characters, config.char_dim, _weight=table)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_dim, count, width) for width, count in config.filters
        )
        self.activation = nn.ReLU() if config.activation == "relu" else nn.Tanh()
        early = config.project_at == "after_cnn"
        self.highway = Highway(config.dim if early else config.n_filters, config.n_highway)
        self.project = nn.Linear(config.n_filters, config.dim) if config.project else nn.Identity()
        self.norm = LayerNorm(config.dim, config.norm_eps) if config.layer_norm else nn.Identity()
        if not table.is_meta:  # random numbers on the meta device import half of torch
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """The original initialization."""
        nn.init.uniform_(self.embed.weight, -1.0, 1.0)
        for conv in self.convolutions:
            assert isinstance(conv, nn.Conv1d)
            if self.config.activation == "relu":
                nn.init.uniform_(conv.weight, -0.05, 0.05)
            else:
                nn.init.normal_(conv.weight, std=conv.weight[0].numel() ** -0.5)
            assert conv.bias is not None
            nn.init.zeros_(conv.bias)
        self.highway.reset_parameters()
        if isinstance(self.project, nn.Linear):
            nn.init.normal_(self.project.weight, std=self.project.in_features**-0.5)
            nn.init.zeros_(self.project.bias)

    def forward(self, rows: Tensor) -> Tensor:
        on_cpu = rows.device.type == "cpu" and len(rows) > 0
        return self.finish(self._maxima_cpu(rows) if on_cpu else self._maxima(rows))

    def _maxima(self, rows: Tensor) -> Tensor:
        x = self.embed(without_spare_padding(rows, self.config)).transpose(1, 2)  # (W, E, C')
        return torch.cat([conv(x).amax(dim=-1) for conv in self.convolutions], dim=-1)  # (W, F)

    def _maxima_cpu(self, rows: Tensor) -> Tensor:
        """The same, several times faster on a CPU, most of all in training."""
        order, groups = word_groups(rows)
        parts = [
            max_convolution(groups, self.embed.weight, conv.weight, conv.bias)
            for conv in self.convolutions
            if isinstance(conv, nn.Conv1d) and conv.bias is not None
        ]
        return torch.cat(parts, dim=-1)[torch.argsort(order)]  # (W, F)

    def finish(self, x: Tensor) -> Tensor:
        """The maxima of the convolutions (W, F) -> vectors (W, D)."""
        x = self.activation(x)
        early = self.config.project_at == "after_cnn"
        x = self.highway(self.project(x)) if early else self.project(self.highway(x))
        vectors: Tensor = self.norm(x)  # (W, D)
        return vectors.to(self.embed.weight.dtype)  # autocast may have changed it


def without_spare_padding(rows: Tensor, config: CharCNNConfig) -> Tensor:
    """Drop columns of padding that cannot change the result.

    After the longest word every column is the padding character. One window of padding must stay
    for the widest filter, because the maximum is over padding too; more windows give the same.
    """
    if not len(rows):
        return rows
    same = (rows == rows[:, -1:]).flip(1).cumprod(1).sum(1).min()  # padding columns all rows share
    widest = max(width for width, _ in config.filters)
    return rows[:, : rows.shape[1] - max(0, int(same) - widest)]


# Convolution and maximum in one, for CPUs. Of all a word's windows only the winning one has a
# gradient, so the scores are never kept and the gradient goes straight to the winners' characters.


def word_groups(rows: Tensor) -> tuple[Tensor, list[tuple[Tensor, int]]]:
    """Words by increasing length: their order, and groups of rows, each with its longest length.

    After its word a row repeats its last id.
    """
    padding = (rows == rows[:, -1:]).flip(1).cumprod(1).sum(1)  # (W,)
    lengths = rows.shape[1] - padding
    order = torch.argsort(lengths, stable=True)
    parts = order.split(_WORDS_IN_A_GROUP)
    return order, [(rows[part], int(lengths[part[-1]])) for part in parts]


def max_convolution(
    groups: list[tuple[Tensor, int]], embed: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """max over windows of (conv(embed[rows]) + bias), words in the order of the groups: (W, F).

    weight (F, E, k). One window of padding stays, because it may be the largest.
    """
    width = weight.shape[2]
    cut = [rows[:, : min(rows.shape[1], longest + width)] for rows, longest in groups]
    with torch.autocast(embed.device.type, enabled=False):  # rounded scores would have many ties
        maxima: Tensor = _MaxConvolution.apply(embed, weight, bias, *cut)  # type: ignore[no-untyped-call]
    return maxima


class _MaxConvolution(torch.autograd.Function):
    """Keeps, for each word and filter, where the maximum was; ties go to the first."""

    @staticmethod
    def forward(ctx: Any, embed: Tensor, weight: Tensor, bias: Tensor, *groups: Tensor) -> Tensor:
        kernel = weight.permute(2, 1, 0).flatten(0, 1)  # (k·E, F)
        found = [_maxima(embed[rows], kernel, weight.shape[2]) for rows in groups]
        ctx.save_for_backward(embed, weight, *groups, *(place for _, place in found))
        return torch.cat([best for best, _ in found]) + bias  # (W, F)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        embed, weight, *rest = ctx.saved_tensors
        groups, places = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        width, n_filters = weight.shape[2], len(weight)
        # The gradient of each character at each offset of a winning window, for each filter.
        table = grad.new_zeros(width, len(embed), n_filters)  # (k, V, F)
        parts = grad.split([len(rows) for rows in groups])
        for rows, place, part in zip(groups, places, parts, strict=True):
            at = place.long()  # (w, F)
            for offset in range(width):
                table[offset].scatter_add_(0, rows.gather(1, at + offset), part)
        d_weight = torch.einsum("kvf,ve->fek", table, embed)
        d_embed = torch.einsum("kvf,fek->ve", table, weight)
        return (d_embed, d_weight, grad.sum(0), *(None for _ in groups))


def _maxima(characters: Tensor, kernel: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """characters (w, C, E) -> the best score of all windows and where it was, (w, F) each."""
    n_windows = characters.shape[1] - width + 1
    best = characters[:, :width].flatten(1) @ kernel  # (w, F)
    place = torch.zeros_like(best, dtype=torch.int16)
    for start in range(1, n_windows):
        score = characters[:, start : start + width].flatten(1) @ kernel
        place.masked_fill_(score > best, start)
        torch.maximum(best, score, out=best)
    return best, place
