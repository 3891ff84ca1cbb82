"""A linear-chain CRF: scores of single labels and of neighboring pairs, some pairs forbidden. The
batch is computed together, word after word. Gradients are written by hand: they are the marginals,
which one backward pass gives without an autograd node per word.
"""

# B sentences, T words in the longest, K labels
from typing import Any

import torch
from torch import Tensor, nn

FORBIDDEN = -1e4  # finite, so that sums stay finite; exp of it is 0


class CRF(nn.Module):
    """P(labels | words) over whole sentences; what is not allowed has probability 0."""

    barrier: Tensor  # (K + 1, K + 1)

    def __init__(self, allowed: Tensor):
        """allowed (K + 1, K + 1), true where row may be followed by column; the last row is
        the start of a sentence, the last column its end."""
        super().__init__()
        self.n_labels = len(allowed) - 1
        self.register_buffer("barrier", barrier_of(allowed), persistent=False)
        self.transitions = nn.Parameter(torch.empty(allowed.shape).uniform_(-0.1, 0.1))

    def forward(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Log-likelihood of each sentence, (B,). scores (B, T, K), labels and mask (B, T)."""
        pairs = self.transitions + self.barrier
        partition: Tensor = _Partition.apply(scores, pairs, mask)  # type: ignore[no-untyped-call]
        return _path_score(scores, pairs, labels, mask) - partition

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """The best labels of each sentence (Viterbi)."""
        return best_paths(scores, self.transitions + self.barrier, mask)


def barrier_of(allowed: Tensor) -> Tensor:
    """0 where row may be followed by column, and FORBIDDEN elsewhere."""
    return torch.zeros(allowed.shape).masked_fill_(~allowed, FORBIDDEN)


def best_paths(scores: Tensor, pairs: Tensor, mask: Tensor) -> list[list[int]]:
    """Viterbi: the labels of each sentence with the highest sum of scores (B, T, K) and of those of
    neighbors, pairs (K + 1, K + 1); the last row is the start of a sentence, the last column its
    end. mask (B, T)."""
    if not scores.shape[1]:
        return [[] for _ in scores]
    inner, end = pairs[:-1, :-1], pairs[:-1, -1]
    best = scores[:, 0] + pairs[-1, :-1]  # (B, K)
    back = []  # for each word but the first, where its best path comes from: (B, K)
    for t in range(1, scores.shape[1]):
        value, source = (best.unsqueeze(2) + inner).max(dim=1)  # (B, K)
        live = mask[:, t, None]
        best = torch.where(live, value + scores[:, t], best)
        back.append(torch.where(live, source, torch.arange(len(end), device=scores.device)))
    last = (best + end).argmax(dim=1, keepdim=True)  # (B, 1)
    path = [last]
    for source in reversed(back):
        path.append(source.gather(1, path[-1]))
    rows = torch.cat(path[::-1], dim=1).tolist()  # (B, T)
    return [row[:n] for row, n in zip(rows, mask.sum(dim=1).tolist(), strict=True)]


def _path_score(scores: Tensor, pairs: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Of the given labels: (B,)."""
    n = len(pairs) - 1
    live = mask.to(scores.dtype)
    single = (scores.gather(2, labels.unsqueeze(2)).squeeze(2) * live).sum(dim=1)
    begin = labels.new_full((len(labels), 1), n)
    before = torch.cat([begin, labels], dim=1)  # (B, T + 1)
    after = torch.cat([labels.masked_fill(~mask, n), begin], dim=1)
    # Beyond the end `after` is n; only the first such pair, from the last word, counts.
    counted = torch.cat([mask.new_ones(len(mask), 1), mask], dim=1)
    steps = pairs[before, after] * counted.to(scores.dtype)
    return single + steps.sum(dim=1)


class _Partition(torch.autograd.Function):
    """log Σ exp(score) over all label sequences of each sentence: (B,)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, pairs: Tensor, mask: Tensor) -> Tensor:
        inner, begin, end = pairs[:-1, :-1], pairs[-1, :-1], pairs[:-1, -1]
        alphas = [begin + scores[:, 0]]  # (B, K) each
        for t in range(1, scores.shape[1]):
            value = _log_product(alphas[-1], inner) + scores[:, t]
            alphas.append(torch.where(mask[:, t, None], value, alphas[-1]))
        partition = torch.logsumexp(alphas[-1] + end, dim=1)  # (B,)
        ctx.save_for_backward(scores, pairs, mask, torch.stack(alphas, dim=1), partition)
        return partition

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        scores, pairs, mask, alphas, partition = ctx.saved_tensors
        inner, end = pairs[:-1, :-1], pairs[:-1, -1]
        beta = end.expand(len(scores), -1)  # (B, K)
        betas = [beta]
        for t in range(scores.shape[1] - 1, 0, -1):
            value = _log_product(beta + scores[:, t], inner.T)
            beta = torch.where(mask[:, t, None], value, beta)
            betas.append(beta)
        after = torch.stack(betas[::-1], dim=1)  # (B, T, K)
        weight = grad[:, None, None] * mask.unsqueeze(2).to(scores.dtype)  # (B, T, 1)
        single = torch.exp(alphas + after - partition[:, None, None]) * weight  # (B, T, K)
        d_pairs = torch.zeros_like(pairs)
        d_pairs[-1, :-1] = single[:, 0].sum(dim=0)
        last = (mask.sum(dim=1) - 1).view(-1, 1, 1).expand(-1, 1, single.shape[2])
        d_pairs[:-1, -1] = single.gather(1, last).sum(dim=(0, 1))
        d_pairs[:-1, :-1] = _pair_counts(scores, inner, alphas, after, partition, weight)
        return single, d_pairs, None


def _log_product(left: Tensor, right: Tensor) -> Tensor:
    """log(exp(left) @ exp(right)), (B, K) and (K, K), without overflow."""
    return torch.logsumexp(left.unsqueeze(2) + right, dim=1)


def _pair_counts(
    scores: Tensor, inner: Tensor, alphas: Tensor, after: Tensor, partition: Tensor, weight: Tensor
) -> Tensor:
    """Expected times that one label follows another: (K, K)."""
    live = weight[:, 1:] != 0  # (B, T - 1, 1); after the end the sums below are meaningless
    left = alphas[:, :-1] - partition[:, None, None]
    right = (scores + after)[:, 1:].masked_fill(~live, FORBIDDEN)
    pairs = torch.exp(left.unsqueeze(3) + inner + right.unsqueeze(2))  # (B, T - 1, K, K)
    return torch.einsum("bt,btij->ij", weight[:, 1:, 0], pairs)
