"""Heads that look at the neighbors from the first step on.

A Transformer whose positions and heads begin at random sees a bag of words: every head looks
everywhere, and it takes thousands of steps until one finds the word before. Here positions begin as
waves, and each head of the first block turns those waves by so many places that a position fits
best with its neighbor: the one before, the one after, two before, and so on. All of it is learned
further like any other weight, and the model is an ordinary one.
"""

# P positions, D dim, H heads, W waves of a head: a sine and a cosine each
import math

import torch
from torch import Tensor, nn

_TIMES = 3.0  # how much larger than a piece's vector the waves are, where they stand
_PEAK = 5.0  # by how much the neighbor's score is above the others', before the softmax
_SEED = 1


@torch.no_grad()
def look_at_neighbors(
    positions: nn.Embedding, pieces: nn.Embedding, qkv: nn.Linear, shifts: list[int]
) -> None:
    """`shifts` (H,) are the neighbors, -1 for the position before. Of the vectors of positions,
    the numbers that the waves do not need are 0."""
    table, dim = positions.weight, positions.embedding_dim
    head = dim // len(shifts)
    rates = _rates(head // 2)  # (W,)
    angles = torch.arange(len(table)).unsqueeze(1) * rates  # (P, W)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (P, 2W)
    piece = pieces.weight.square().mean().sqrt()
    table.zero_()[:, : waves.shape[1]] = _TIMES * piece * math.sqrt(2) * waves
    length = (1 + _TIMES**2 * waves.shape[1] / dim) ** 0.5  # after the norm, in units of `piece`
    fit = 2 * len(rates) * (_TIMES / length) ** 2  # of waves that are turned alike
    size = math.sqrt(_PEAK * math.sqrt(head) / fit)
    query, key = (part.unflatten(0, (len(shifts), head)) for part in qkv.weight.chunk(3)[:2])
    for h, shift in enumerate(shifts):
        query[h], key[h] = (size * _turned(rates, by, head, dim) for by in (shift, 0))


def both_sides(n_heads: int) -> list[int]:
    """-1, 1, -2, 2, …"""
    return [(1 + h // 2) * (-1) ** (h + 1) for h in range(n_heads)]


def before(n_heads: int) -> list[int]:
    """-1, -2, -3, …"""
    return [-1 - h for h in range(n_heads)]


def _rates(n: int) -> Tensor:
    """Turns per position, spread from 0 to half a circle; none is a multiple of another, so that
    waves meet nowhere else."""
    uneven = torch.rand(n, generator=torch.Generator().manual_seed(_SEED))
    return math.pi * (torch.arange(n) + uneven) / n


def _turned(rates: Tensor, by: int, head: int, dim: int) -> Tensor:
    """From a vector to its waves, as they are `by` positions on: (head, D)."""
    sin, cos = torch.sin(by * rates), torch.cos(by * rates)  # (W,)
    blocks = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
    turn = torch.zeros(head, dim)
    turn[: 2 * len(rates), : 2 * len(rates)] = torch.block_diag(*blocks)
    return turn
