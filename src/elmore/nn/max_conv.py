"""Convolution and maximum in one, for CPUs. Of all a word's windows only the winning one has a
gradient, so the scores are never kept and the gradient goes straight to the winners' characters.
"""

# W words, C characters in a row, V character ids, E character dim, k filter width, F filters
from typing import Any

import torch
from torch import Tensor

_WORDS_IN_A_GROUP = 256


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
