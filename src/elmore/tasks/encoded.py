"""What passes from encoders to heads: inputs as vectors, in padded batches, and the places of each
example's own inputs in these batches.
"""

# B inputs, T words in the longest, D vector dim, E dim of the late vectors
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.nn.rounding import widened
from elmore.tasks.corpus import Words as Words
from elmore.text.reader import Pair

Input = Words | Pair


def words_of(item: Input) -> Sequence[str]:
    """Of a pair, the words of both texts."""
    return (*item.first, *item.second) if isinstance(item, Pair) else item


@dataclass(frozen=True, slots=True)
class Dims:
    """How wide an encoder's vectors are; `late` and `pooled` are 0 when it has none."""

    vectors: int
    late: int = 0
    pooled: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """A padded batch of inputs. Vectors beyond an input's end are zero."""

    vectors: Tensor  # (B, T, D)
    mask: Tensor  # (B, T), true where there is a word
    late: Tensor | None = None  # (B, T, E)
    """A second mix, to be joined to the output of the task's RNN; None when `Dims.late` is 0."""
    pooled: Tensor | None = None  # (B, D)
    """What a fine-tuned model says of each input as a whole; None when `Dims.pooled` is 0."""
    loss: Tensor | None = None
    """What the encoder adds to the loss of training."""

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(dim=1)  # (B,)

    def with_late(self, states: Tensor) -> Tensor:
        """The states of the task's RNN (B, T, H), and beside them the late vectors, if any."""
        return states if self.late is None else torch.cat([states, self.late], dim=-1)

    def widened(self) -> "Encoded":
        """With float32 in the place of what autocast has rounded."""
        late, pooled = (None if x is None else widened(x) for x in (self.late, self.pooled))
        return Encoded(widened(self.vectors), self.mask, late, pooled, self.loss)

    def rows(self, rows: Sequence[int]) -> "Encoded":
        late, pooled = (None if x is None else x[rows] for x in (self.late, self.pooled))
        return Encoded(self.vectors[rows], self.mask[rows], late, pooled)


Batches = Sequence[Encoded]
"""All inputs of some examples."""


class Place(NamedTuple):
    """Where an input of an example is: in which batch, in which row of it."""

    batch: int
    row: int


Places = Sequence[Sequence[Place]]
"""For each example, one place for each of its inputs."""


def arrange(inputs: Sequence[Sequence[Input]], *, share: bool) -> tuple[list[list[Input]], Places]:
    """The inputs of some examples as batches to encode, and the places of each example's own.

    With `share` there is one batch that has each distinct input once. Without it, the first inputs
    of all examples are one batch, the second inputs another, and so on, with one row per example.
    """
    if share:
        row_of: dict[Input, int] = {}
        places = [
            [Place(0, row_of.setdefault(item, len(row_of))) for item in own] for own in inputs
        ]
        return [list(row_of)], places
    batches = [list(slot) for slot in zip(*inputs, strict=True)]
    return batches, [[Place(n, row) for n in range(len(own))] for row, own in enumerate(inputs)]


def nth_inputs(encoded: Batches, places: Places, n: int) -> Encoded:
    """The n-th input of every example, one row per example."""
    (batch,) = {own[n].batch for own in places}
    rows = [own[n].row for own in places]
    found = encoded[batch]
    return found if rows == list(range(len(found.mask))) else found.rows(rows)
