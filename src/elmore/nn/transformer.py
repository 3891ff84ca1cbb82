"""Transformer ELMo's context: two stacks of pre-norm blocks, one that sees a word and the words
before it, one that sees a word and the words after it. The second reads each sentence reversed
within its own length, so both are causal, padding always comes last and no mask is needed.
"""

# B sentences, T words, D input and output dim, F feed-forward dim, H heads
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import InputError
from elmore.nn.dot_attention import attend
from elmore.nn.dropout import Dropout
from elmore.nn.rnn import mirror, take

DIRECTIONS = 2


class TransformerConfig(Frozen):
    """The context of a Transformer ELMo. Defaults are AllenNLP's published model."""

    kind: Literal["transformer"] = "transformer"
    dim: int = Field(default=512, ge=2)
    ff_dim: int = Field(default=2048, ge=1)
    n_layers: int = Field(default=6, ge=1, le=1000)
    n_heads: int = Field(default=8, ge=1)
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On attention weights, inside the feed-forward and on what each block adds, in training."""
    input_dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On the word vectors after positions are added, in training."""
    norm_eps: float = Field(default=1e-13, gt=0.0)
    """AllenNLP had 1e-6 until 0.9 and 1e-13 since; files do not say which."""
    max_positions: int = Field(default=5000, ge=3)
    """The longest sentence, marks counted."""

    @model_validator(mode="after")
    def _fits(self) -> "TransformerConfig":
        if self.dim % self.n_heads:
            raise ValueError(f"dim={self.dim} is not divisible by n_heads={self.n_heads}")
        if self.dim % 2:
            raise ValueError(
                f"dim={self.dim}: positions are pairs of sine and cosine, so it must be even"
            )
        return self


class LayerNorm(nn.Module):
    """gamma (x - mean) / (std + eps) + beta, as AllenNLP wrote it: torch's own has eps under the
    root."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        std, mean = torch.std_mean(x, dim=-1, correction=0, keepdim=True)
        return self.gamma * (x - mean) / (std + self.eps) + self.beta  # (..., D)


class Attention(nn.Module):
    """Each position attends to itself and those before it; one product gives q, k and v."""

    def __init__(self, dim: int, n_heads: int, dropout: float):
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3, self.n_heads, -1))  # (B, T, 3, H, D/H)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # (B, H, T, D/H) each
        dropout = self.dropout if self.training else 0.0
        mixed = attend(q, k, v, dropout, causal=True)
        joined: Tensor = self.out(mixed.transpose(1, 2).flatten(2))  # (B, T, D)
        return joined


class Block(nn.Module):
    """Attention, then a small network at each position; both add to what came in."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm_1, self.norm_2 = (LayerNorm(config.dim, config.norm_eps) for _ in range(2))
        self.attention = Attention(config.dim, config.n_heads, config.dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.dim, config.ff_dim),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.ff_dim, config.dim),
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm_1(x)))
        y: Tensor = x + self.dropout(self.feed_forward(self.norm_2(x)))  # (B, T, D)
        return y


class Stack(nn.Module):
    """The blocks of one direction; the last norm is for the top layer only."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.dim, config.norm_eps)

    def forward(self, x: Tensor) -> list[Tensor]:
        outputs: list[Tensor] = []  # (B, T, D) each
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return [*outputs[:-1], self.norm(outputs[-1])]


class BiTransformer(nn.Module):
    """Both directions over sentences with positions; it has no state between batches."""

    positions: Tensor  # (max_positions, D)

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.directions = nn.ModuleList(Stack(config) for _ in range(DIRECTIONS))
        self.input_dropout = Dropout(config.input_dropout)
        # Kept with the weights: published tables are of float32 angles, off by 1e-4 at the end.
        self.register_buffer("positions", sinusoids(config.max_positions, config.dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for every matrix; biases stay as torch draws them, as in the original."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                for part in parameter.chunk(3 if "qkv" in name else 1):
                    nn.init.xavier_uniform_(part)

    def forward(self, x: Tensor, lengths: Tensor, state: None = None) -> tuple[list[Tensor], None]:
        """Sentences in reading order: x (B, T, D) -> (B, T, 2D) per layer, forward first."""
        n_words = x.shape[1]
        if n_words > self.config.max_positions:
            raise InputError(
                f"A sentence of {n_words:,} words (marks counted) is too long for this "
                f"Transformer, which has {self.config.max_positions:,} positions; split it."
            )
        x = self.input_dropout(x + self.positions[:n_words])
        back = mirror(lengths, n_words)  # (B, T)
        ahead, behind = self.directions
        pairs = zip(ahead(x), behind(take(x, back)), strict=True)
        return [torch.cat([y, take(z, back)], dim=-1) for y, z in pairs], None

    def floors(self) -> list[list[nn.Parameter]]:
        """Parameters by layer, top first; the last norm belongs to the top."""
        stacks = [stack for stack in self.directions if isinstance(stack, Stack)]
        norms = [p for stack in stacks for p in stack.norm.parameters()]
        layers = zip(*(reversed(stack.blocks) for stack in stacks), strict=True)
        floors = [[p for block in blocks for p in block.parameters()] for blocks in layers]
        return [[*norms, *floors[0]], *floors[1:]]


def sinusoids(n_positions: int, dim: int) -> Tensor:
    """Sine and cosine of a position at wavelengths from 2π to 10000 · 2π, by turns."""
    rates = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (D / 2,)
    angles = torch.arange(n_positions, dtype=torch.float64).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()
