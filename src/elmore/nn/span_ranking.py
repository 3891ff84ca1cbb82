"""Spans of a text as vectors, how likely each is a mention, and which ones to keep (Lee et al.
2017). A span is [first state, last state, attended head, width]; its score is a network of two
hidden layers on that. The first layer is linear, so it is computed for words and then added up for
spans: no vector of a candidate is ever made.
"""

# n words, S candidate spans, K spans kept, W words of the widest span, D input dim, H state dim,
# F feature dim, U hidden units, G dim of a span's vector
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.nn.dropout import Dropout

_LOWEST = -60.0  # of an attention logit below the sentence's highest; exp() of it is no zero


@dataclass(frozen=True, slots=True)
class TextStates:
    """The words of one document."""

    inputs: Tensor  # (n, D)
    states: Tensor  # (n, H)
    lengths: Sequence[int]
    """Words of each sentence; spans do not cross their ends."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """All spans up to the widest, by width and then by place."""

    first: Tensor  # (S,)
    last: Tensor  # (S,)
    scores: Tensor  # (S,)


class ScoreLayers(nn.Module):
    """From the sum of the first layer's parts to a score: ReLU, a second layer, one number."""

    def __init__(self, hidden: int, dropout: float):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(), Dropout(dropout), nn.Linear(hidden, hidden),
            nn.ReLU(), Dropout(dropout), nn.Linear(hidden, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x).squeeze(-1)
        return scores


class Spans(nn.Module):
    """Scores all candidates, and makes vectors of the ones that are kept."""

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        max_width: int,
        feature_dim: int,
        hidden: int,
        dropout: float,
    ):
        super().__init__()
        self.max_width = max_width
        self.dim = 2 * state_dim + input_dim + feature_dim
        self.attend = nn.Linear(state_dim, 1)
        self.width = nn.Embedding(max_width, feature_dim)
        self.of_first = nn.Linear(state_dim, hidden)
        self.of_last = nn.Linear(state_dim, hidden, bias=False)
        self.of_head = nn.Linear(input_dim, hidden, bias=False)
        self.of_width = nn.Linear(feature_dim, hidden, bias=False)
        self.score = ScoreLayers(hidden, dropout)

    def candidates(self, text: TextStates) -> Candidates:
        """score(i, j) = network(A h_i + B h_j + C head(i, j) + E width), the head being the mean of
        the inputs weighted by softmax over i … j of their logits."""
        n = len(text.states)
        ends = last_words(text.lengths, text.states.device)  # (n,)
        weights = self._weights(text)  # (n,)
        first, last = self.of_first(text.states), self.of_last(text.states)  # (n, U)
        width = self.of_width(self.width.weight)  # (W, U)
        weighted = weights.unsqueeze(1) * self.of_head(text.inputs)  # (n, U)
        total, norm = weighted, weights
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        place = torch.arange(n, device=ends.device)
        for more in range(min(self.max_width, n)):
            if more:
                total, norm = total[:-1] + weighted[more:], norm[:-1] + weights[more:]
            start = (place[: n - more] + more <= ends[: n - more]).nonzero().squeeze(1)
            if not len(start):
                break
            head = total[start] / norm[start].unsqueeze(1)
            layer = first[start] + last[start + more] + head + width[more]
            found.append((start, start + more, self.score(layer)))
        return Candidates(*(torch.cat(part) for part in zip(*found, strict=True)))

    def _weights(self, text: TextStates) -> Tensor:
        """exp(logit), in each sentence relative to its highest one."""
        logits = self.attend(text.states).squeeze(1)  # (n,)
        top = torch.stack([part.detach().max() for part in logits.split(list(text.lengths))])
        counts = torch.tensor(text.lengths, device=logits.device)
        weights: Tensor = (logits - top.repeat_interleave(counts)).clamp(min=_LOWEST).exp()
        return weights

    def forward(self, text: TextStates, first: Tensor, last: Tensor) -> Tensor:
        """The vectors (K, G) of some spans."""
        offset = torch.arange(self.max_width, device=first.device)
        place = first.unsqueeze(1) + offset  # (K, W)
        inside = place <= last.unsqueeze(1)
        place = place.clamp(max=len(text.states) - 1)
        weights = self._weights(text)[place] * inside  # (K, W)
        weights = weights / weights.sum(dim=1, keepdim=True)
        head = torch.einsum("kw,kwd->kd", weights, text.inputs[place])  # (K, D)
        ends = [text.states[first], text.states[last]]
        return torch.cat([*ends, head, self.width(last - first)], dim=1)  # (K, G)


def last_words(lengths: Sequence[int], device: torch.device) -> Tensor:
    """For each word, the last word of its sentence."""
    counts = torch.tensor(lengths, device=device)
    return (counts.cumsum(0) - 1).repeat_interleave(counts)  # (n,)


def keep_best(spans: NDArray[np.int64], scores: NDArray[np.floating], most: int) -> list[int]:
    """Indexes of the best of some spans (2, S), no two of which cross. They are taken greedily from
    the highest score on (of equal ones the earlier), and given in the order of the text."""
    first, last = spans
    latest: dict[int, int] = {}  # the last word of the longest kept span that begins here
    earliest: dict[int, int] = {}  # the first word of the longest kept span that ends here
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == most:
            break
        a, b = int(first[i]), int(last[i])
        opens_inside = any(latest.get(at, b) > b for at in range(a + 1, b + 1))
        if opens_inside or any(earliest.get(at, a) < a for at in range(a, b)):
            continue
        kept.append(i)
        latest[a] = max(latest.get(a, b), b)
        earliest[b] = min(earliest.get(b, a), a)
    return sorted(kept, key=lambda i: (first[i], last[i]))
