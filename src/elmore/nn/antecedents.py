"""Which earlier span each span refers to (Lee et al. 2018). All pairs are scored by a bilinear form
(coarse), the best antecedents of each span by a network (fine). The network's first layer is split:
A g_i + B g_j + C (g_i ∘ g_j) + features. The first two are computed per span, and only the third
per pair. Pairs are computed in chunks, and in training again in the backward pass: memory does not
grow with their number.
"""

# K spans, J antecedents of each, G dim of a span's vector, P dim of the product, U hidden units
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmore.nn.dropout import Dropout
from elmore.nn.span_ranking import ScoreLayers

_BUCKETS = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # the first distance of each
N_MATCHES = 3
"""Two spans have nothing in common, the last word, or all words."""


class Antecedents(nn.Module):
    """Scores of antecedents. `forward` gives the chosen antecedents and their scores."""

    def __init__(
        self,
        span_dim: int,
        feature_dim: int,
        hidden: int,
        dropout: float,
        *,
        pair_dim: int | None,
        most: int,
        rounds: int,
        chunk: int,
    ):
        super().__init__()
        self.most, self.rounds, self.chunk = most, rounds, chunk
        self.coarse = nn.Linear(span_dim, span_dim, bias=False)
        nn.init.normal_(self.coarse.weight, std=span_dim**-1.5)
        self.dropout = Dropout(dropout)
        self.reduce = (
            nn.Identity() if pair_dim is None else nn.Linear(span_dim, pair_dim, bias=False)
        )
        self.distance = nn.Embedding(len(_BUCKETS), feature_dim)
        self.match = nn.Embedding(N_MATCHES, feature_dim)
        self.of_span = nn.Linear(span_dim, hidden)
        self.of_other = nn.Linear(span_dim, hidden, bias=False)
        self.of_product = nn.Linear(pair_dim or span_dim, hidden, bias=False)
        self.of_distance = nn.Linear(feature_dim, hidden, bias=False)
        self.of_match = nn.Linear(feature_dim, hidden, bias=False)
        self.score = ScoreLayers(hidden, dropout)
        self.gate = nn.Linear(2 * span_dim, span_dim) if rounds > 1 else None

    def forward(self, spans: Tensor, mention: Tensor, match: Tensor) -> tuple[Tensor, Tensor]:
        """From vectors (K, G), mention scores (K,) and kinds of match (K, K): the antecedents of
        each span (K, J) and their scores, -inf where there is none. The scores of the coarse form
        are part of the final ones; no antecedent has score 0."""
        k = len(spans)
        left = self.dropout(self.coarse(spans))
        coarse = left @ self.dropout(spans).T + mention.unsqueeze(1) + mention  # (K, K)
        place = torch.arange(k, device=spans.device)
        coarse = coarse.masked_fill(place.unsqueeze(1) <= place, -torch.inf)
        rough, others = coarse.topk(min(self.most, k), dim=1)  # (K, J)
        distance = bucket(place.unsqueeze(1) - others)  # (K, J)
        match = match.gather(1, others)
        for turn in range(self.rounds):
            scores = rough + self._fine(spans, others, distance, match)
            if self.gate is not None and turn + 1 < self.rounds:
                spans = self._refined(spans, others, scores)
        return others, scores

    def _fine(self, spans: Tensor, others: Tensor, distance: Tensor, match: Tensor) -> Tensor:
        """In chunks of spans, each with all its antecedents."""
        a, b, p = self.of_span(spans), self.of_other(spans), self.reduce(spans)
        features = self.of_distance(self.distance.weight), self.of_match(self.match.weight)
        rows = max(1, self.chunk // others.shape[1])
        again = self.training and len(spans) > rows
        parts = []
        for at in range(0, len(spans), rows):
            here = slice(at, at + rows)
            given = (a[here], b, p[here], p, others[here], distance[here], match[here], *features)
            parts.append(
                checkpoint(self._pairs, *given, use_reentrant=False) if again
                else self._pairs(*given)
            )  # fmt: skip
        return torch.cat(parts)

    def _pairs(
        self,
        a: Tensor,
        b: Tensor,
        p: Tensor,
        products: Tensor,
        others: Tensor,
        distance: Tensor,
        match: Tensor,
        of_distance: Tensor,
        of_match: Tensor,
    ) -> Tensor:
        product = self.of_product(p.unsqueeze(1) * products[others])  # (rows, J, U)
        layer = product + a.unsqueeze(1) + b[others] + of_distance[distance] + of_match[match]
        scores: Tensor = self.score(layer)
        return scores  # (rows, J)

    def _refined(self, spans: Tensor, others: Tensor, scores: Tensor) -> Tensor:
        """Second order: each span moves towards what it may refer to, itself among these."""
        assert self.gate is not None
        chances = with_none(scores).softmax(dim=1)  # (K, 1 + J)
        expected = chances[:, :1] * spans
        expected = expected + torch.einsum("kj,kjg->kg", chances[:, 1:], spans[others])
        keep = torch.sigmoid(self.gate(torch.cat([spans, expected], dim=1)))
        return keep * spans + (1 - keep) * expected


def with_none(scores: Tensor) -> Tensor:
    """(K, 1 + J): first the score 0 of no antecedent."""
    return torch.cat([scores.new_zeros(len(scores), 1), scores], dim=1)


def bucket(distance: Tensor) -> Tensor:
    """1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63 and 64 or more, as 0 … 8; what is no distance is 0."""
    bounds = torch.tensor(_BUCKETS, device=distance.device)
    return torch.bucketize(distance, bounds, right=True).sub(1).clamp(min=0)


def antecedent_loss(scores: Tensor, others: Tensor, gold: Tensor) -> Tensor:
    """Summed over spans: -log of the chance of all right antecedents together; for a span that has
    none among the given ones, no antecedent is right. `gold` (K,) is each span's cluster, -1 where
    it has none."""
    right = (gold[others] == gold.unsqueeze(1)) & (gold >= 0).unsqueeze(1)
    right = right & (scores > -torch.inf)  # (K, J)
    right = torch.cat([~right.any(dim=1, keepdim=True), right], dim=1)  # (K, 1 + J)
    every = with_none(scores)
    return (every.logsumexp(1) - every.masked_fill(~right, -torch.inf).logsumexp(1)).sum()
