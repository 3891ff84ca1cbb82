"""Endless batches for masked language models. Each pass draws new pairs and new masks; the rows of
some thousand documents are shuffled together. A position is the pass, the first document of these
and how many batches were taken: going on from it draws the same rows again.
"""

# N positions of all rows, R rows, M places to predict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmore.pretrain.masked_instances import (
    Documents,
    Ids,
    Instance,
    InstancesConfig,
    Marks,
    instances,
    mask,
)

_WINDOW = 32_000  # rows that are shuffled together, about


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """Rows one after another without padding, shortest first, and what is to be predicted."""

    ids: Ids  # (N,)
    segments: Ids  # (N,)
    lengths: Ids  # (R,)
    begins: Ids  # (R,), the position of each row's [CLS]
    places: Ids  # (M,)
    targets: Ids  # (M,)
    random_next: Ids  # (R,), 1 where the second text is from elsewhere


class MaskedBatches:
    """The rows of one process among several."""

    def __init__(
        self,
        documents: Documents,
        config: InstancesConfig,
        marks: Marks,
        n_rows: int,
        *,
        seed: int,
        rank: int = 0,
        n_ranks: int = 1,
    ):
        self.documents, self.config, self.marks, self.n_rows = documents, config, marks, n_rows
        self.seed, self.rank, self.n_ranks = seed, rank, n_ranks
        self.epoch = self.first = self.taken = 0

    def __iter__(self) -> Iterator[MaskedBatch]:
        while True:
            rows, following = self._window()
            rng = np.random.default_rng((self.seed, 1, self.epoch, self.rank, self.first))
            shuffled = [rows[i] for i in rng.permutation(len(rows))]
            for n, start in enumerate(range(0, len(rows), self.n_rows)):
                found = batch(shuffled[start : start + self.n_rows], self.config, self.marks, rng)
                if n >= self.taken:
                    self.taken = n + 1
                    yield found
            self.epoch, self.first, self.taken = *following, 0

    def _window(self) -> tuple[list[Instance], tuple[int, int]]:
        """Rows of the next documents, and the pass and document after them."""
        order = np.random.default_rng((self.seed, 0, self.epoch)).permutation(len(self.documents))
        mine = order[self.rank :: self.n_ranks] if len(order) >= self.n_ranks else order
        rows: list[Instance] = []
        for n, i in enumerate(mine[self.first :], start=self.first + 1):
            rng = np.random.default_rng((self.seed, 2, self.epoch, int(i)))
            rows += instances(self.documents, int(i), self.config, self.marks, rng)
            if len(rows) >= _WINDOW and n < len(mine):
                return rows, (self.epoch, n)
        return rows, (self.epoch + 1, 0)

    def state(self) -> Any:
        return {"epoch": self.epoch, "first": self.first, "taken": self.taken}

    def restore(self, state: Any) -> None:
        self.epoch, self.first, self.taken = state["epoch"], state["first"], state["taken"]


def batch(
    rows: Sequence[Instance], config: InstancesConfig, marks: Marks, rng: np.random.Generator
) -> MaskedBatch:
    rows = sorted(rows, key=lambda row: len(row.ids))
    masked = [mask(row.ids, config, marks, rng) for row in rows]
    lengths = np.array([len(row.ids) for row in rows])
    begins = np.cumsum(lengths) - lengths
    return MaskedBatch(
        ids=np.concatenate([m.ids for m in masked]),
        segments=np.concatenate([row.segments for row in rows]),
        lengths=lengths,
        begins=begins,
        places=np.concatenate([m.places + b for m, b in zip(masked, begins, strict=True)]),
        targets=np.concatenate([m.targets for m in masked]),
        random_next=np.array([row.random_next for row in rows], dtype=np.int64),
    )
