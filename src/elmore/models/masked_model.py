"""BERT with the two heads it is pretrained with: which pieces were masked, and whether the second
text follows the first.
"""

# N positions of all rows, R rows, M places to predict, D dim, V pieces
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.models.bert import Bert, MaskedHead
from elmore.nn.rounding import free_rows
from elmore.text.reader import IntArray


@dataclass(frozen=True, slots=True)
class Predicted:
    """Scores for what was hidden."""

    pieces: Tensor  # (M, V)
    following: Tensor | None  # (R, 2): 0 the second text follows, 1 it does not


class MaskedModel(nn.Module):
    """Only the masked places meet the vocabulary, whose product is the largest of small models, and
    only they and the rows' beginnings go through the end of the top block."""

    def __init__(self, bert: Bert, masked: MaskedHead, following: nn.Linear | None):
        super().__init__()
        self.bert, self.masked, self.following = bert, masked, following

    def forward(
        self, ids: Tensor, segments: Tensor, lengths: IntArray, begins: Tensor, places: Tensor
    ) -> Predicted:
        n = len(places)
        places = F.pad(places, (0, free_rows(n, places.device)))
        used = places if self.following is None else torch.cat([places, begins])
        top = self.bert.run(ids, segments, lengths, used)[-1]  # (M + R, D)
        pieces = self.masked(top[: len(places)], self.bert.embed.pieces.weight)[:n]
        if self.following is None:
            return Predicted(pieces, None)
        pooled = self.bert.pool(top[len(places) :])
        assert pooled is not None, "a BERT without a pooler cannot judge pairs"
        return Predicted(pieces, self.following(pooled))


@dataclass(frozen=True, slots=True)
class MaskedLoss:
    """Sums over the masked places, and over the rows."""

    pieces: Tensor
    following: Tensor | None
    right_pieces: int
    right_following: int


def masked_loss(predicted: Predicted, targets: Tensor, random_next: Tensor) -> MaskedLoss:
    pieces = predicted.pieces.float()
    right = int((pieces.argmax(-1) == targets).sum())
    loss = F.cross_entropy(pieces, targets, reduction="sum")
    if predicted.following is None:
        return MaskedLoss(loss, None, right, 0)
    following = predicted.following.float()
    return MaskedLoss(
        loss,
        F.cross_entropy(following, random_next, reduction="sum"),
        right,
        int((following.argmax(-1) == random_next).sum()),
    )
