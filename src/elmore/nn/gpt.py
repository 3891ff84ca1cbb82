"""GPT-2's Transformer: a position sees itself and those before it, each norm comes before its part,
positions are learned, and a last norm is for the top layer only.

    a = x + W_o attention(LN(x))        y = a + W_2 act(W_1 LN(a))
"""

# B rows, T steps, D input and output dim, F feed-forward dim
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import InputError
from elmore.nn.dropout import Dropout
from elmore.nn.post_norm import ACTIVATIONS, Activation
from elmore.nn.transformer import Attention

_STD = 0.02


class GPTConfig(Frozen):
    """The context of a GPT-2. Defaults are the smallest published model."""

    kind: Literal["gpt"] = "gpt"
    dim: int = Field(default=768, ge=1)
    ff_dim: int = Field(default=3072, ge=1)
    n_layers: int = Field(default=12, ge=1, le=1000)
    n_heads: int = Field(default=12, ge=1)
    activation: Activation = "gelu_new"
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On what each block adds, in training."""
    attention_dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    input_dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On the sum of piece and position."""
    norm_eps: float = Field(default=1e-5, gt=0.0)
    max_positions: int = Field(default=1024, ge=2)

    @model_validator(mode="after")
    def _fits(self) -> "GPTConfig":
        if self.dim % self.n_heads:
            raise ValueError(f"dim={self.dim} is not divisible by n_heads={self.n_heads}")
        return self


class PreNormBlock(nn.Module):
    """Attention, then a small network at each position; both add to what came in."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.dim, config.norm_eps)
        self.attention = Attention(config.dim, config.n_heads, config.attention_dropout)
        self.norm_2 = nn.LayerNorm(config.dim, config.norm_eps)
        self.expand = nn.Linear(config.dim, config.ff_dim)
        self.activation: Activation = config.activation
        self.contract = nn.Linear(config.ff_dim, config.dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        a = x + self.dropout(self.attention(self.norm_1(x)))
        grown = ACTIVATIONS[self.activation](self.expand(self.norm_2(a)))  # (B, T, F)
        y: Tensor = a + self.dropout(self.contract(grown))
        return y  # (B, T, D)


class GPT(nn.Module):
    """Blocks over pieces with their positions; there is no state between batches."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.positions = nn.Embedding(config.max_positions, config.dim)
        self.blocks = nn.ModuleList(PreNormBlock(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.dim, config.norm_eps)
        self.input_dropout = Dropout(config.input_dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As published: what is added 2L times to the same sum begins smaller by the root of it."""
        for name, part in self.named_modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                added = name.endswith(("attention.out", "contract"))
                share = (2 * self.config.n_layers) ** -0.5 if added else 1.0
                nn.init.normal_(part.weight, std=_STD * share)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x (B, T, D) -> the sum with positions and each layer, (B, T, D) each. What is after a
        row's end changes nothing before."""
        n_steps, most = x.shape[1], self.config.max_positions
        if n_steps > most:
            raise InputError(
                f"A text of {n_steps:,} pieces is too long for this Transformer, which has "
                f"{most:,} positions; split it."
            )
        x = x + self.positions(torch.arange(n_steps, device=x.device))
        outputs = [x]
        x = self.input_dropout(x)
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return [*outputs[:-1], self.norm(outputs[-1])]

    def floors(self) -> list[list[nn.Parameter]]:
        """Parameters by layer, top first; the last norm belongs to the top. Positions are left to
        the floor of the table of pieces."""
        blocks = [[*block.parameters()] for block in reversed(self.blocks)]
        return [[*self.norm.parameters(), *blocks[0]], *blocks[1:]]
