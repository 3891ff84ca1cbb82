"""Batches of lines for a causal model: every line once per epoch, lines of similar length together,
in an order that depends on the seed and the epoch alone. So a position is two numbers.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from elmore.pretrain.config import LinesConfig
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.text.causal_reader import in_reading_order, padded
from elmore.text.reader import IntArray
from elmore.text.subwords import Subwords

_POOL = 50  # batches whose lines are sorted by length together

Lines = tuple[IntArray, IntArray]
"""ids (B, T) with both marks, and lengths (B,)."""


class LineBatches:
    """Endless batches. With several processes, each takes every n-th batch."""

    def __init__(
        self,
        corpus: PieceCorpus,
        config: LinesConfig,
        subwords: Subwords,
        *,
        backward: bool = False,
        seed: int = 0,
        rank: int = 0,
        n_ranks: int = 1,
    ):
        self.corpus, self.config, self.subwords = corpus, config, subwords
        self.backward = backward
        self.seed, self.rank, self.n_ranks = seed, rank, n_ranks
        self.epoch = self.place = 0
        self._lines = _cut(corpus.lengths, config.longest)
        self._batches: list[NDArray[np.int64]] | None = None

    def __iter__(self) -> Iterator[Lines]:
        return self

    def __next__(self) -> Lines:
        if self._batches is None:
            self._batches = self._epoch_batches()
        batch = self._batches[self.place]
        self.place += 1
        if self.place == len(self._batches):
            self.epoch, self.place, self._batches = self.epoch + 1, 0, None
        return self.read(batch)

    @property
    def n_lines(self) -> int:
        """Parts of long lines counted apart."""
        return len(self._lines)

    def read(self, numbers: NDArray[np.int64]) -> Lines:
        """Some lines by their numbers."""
        begin, end = self.subwords.begin, self.subwords.end
        rows = []
        for line, start in self._lines[numbers].tolist():
            pieces = self.corpus.sentence(line)[start : start + self.config.longest]
            rows.append([begin, *in_reading_order(pieces.tolist(), self.backward), end])
        return padded(rows)

    def state(self) -> list[int]:
        return [self.epoch, self.place]

    def restore(self, state: list[int]) -> None:
        self.epoch, self.place = (int(number) for number in state)
        self._batches = None

    def _epoch_batches(self) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng((self.seed, self.epoch))
        sizes = self._sizes()
        batches = grouped(sizes, self.config.pieces, rng)
        batches = [batches[i] for i in rng.permutation(len(batches))]
        mine = batches[self.rank :: self.n_ranks]
        return mine or batches[:1]

    def _sizes(self) -> NDArray[np.int64]:
        """Pieces of each line, a mark included."""
        lines, starts = self._lines.T
        left: NDArray[np.int64] = self.corpus.lengths[lines] - starts
        return np.minimum(left, self.config.longest) + np.int64(1)


def grouped(
    sizes: NDArray[np.int64], most: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Every number once, shuffled, then in batches of similar sizes and at most `most` in all,
    padding counted; a larger one is a batch by itself."""
    order = rng.permutation(len(sizes))
    pool = max(1, _POOL * most // max(1, int(sizes.mean())))
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), pool):
        some = order[start : start + pool]
        some = some[np.argsort(sizes[some], kind="stable")]
        first = 0
        for i, size in enumerate(sizes[some].tolist()):
            if i > first and (i + 1 - first) * size > most:
                batches.append(some[first:i])
                first = i
        batches.append(some[first:])
    return batches


def _cut(lengths: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """(line, first piece) of every part of a line, (n, 2)."""
    parts = np.maximum(1, -(-lengths // longest))
    lines = np.repeat(np.arange(len(lengths)), parts)
    within = np.arange(len(lines)) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.stack([lines, within * longest], axis=1)
