"""The uses nearest to a query: among the uses of one word by a matrix product, or among all uses,
where the approximate index finds candidates and their stored vectors are compared.
"""

# m uses looked at, D vector dim
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmore.embedding import Vectors
from elmore.search.approximate import Approximate
from elmore.search.segment import Ints, Rows, Segment
from elmore.search.vector_space import Query
from elmore.uses.geometry import unit

_CHUNK = 65_536


class Hit(NamedTuple):
    """A use that was found."""

    score: float
    segment: int
    row: int


def nearest_in_word(segments: Sequence[Segment], query: Query, word: str) -> list[Hit]:
    """Every use of the word, the nearest first."""
    hits = []
    for i, segment in enumerate(segments):
        rows = segment.rows(word)
        hits += _hits(i, rows, _cosines(segment, rows, query))
    return sorted(hits, reverse=True)


def nearest(
    segments: Sequence[Segment], approximate: Approximate | None, query: Query, n: int
) -> list[Hit]:
    """About n uses of any words, the nearest first; the approximate index covers segment 0."""
    hits = []
    for i, segment in enumerate(segments):
        if i == 0 and approximate is not None:
            rows = _living(segment, approximate.candidates(query, n))
            scores = _cosines(segment, rows, query)
        else:
            rows, scores = _scan(segment, query, n)
        hits += _hits(i, rows, scores)
    return sorted(hits, reverse=True)[:n]


def _scan(segment: Segment, query: Query, n: int) -> tuple[Ints, Vectors]:
    """The best n of a whole segment."""
    n_uses = segment.state.uses
    parts = [
        _cosines(segment, slice(begin, begin + _CHUNK), query) for begin in range(0, n_uses, _CHUNK)
    ]
    scores = np.concatenate(parts)
    rows = _living(segment, np.arange(n_uses))
    if n < len(rows):
        rows = rows[np.argpartition(-scores[rows], n)[:n]]
    return rows, scores[rows]


def _cosines(segment: Segment, rows: Rows, query: Query) -> Vectors:
    vectors = unit(segment.vectors(rows, query.weights))  # (m, D)
    cosines: Vectors = np.clip(vectors @ query.seen(query.weights), -1, 1)  # rounding errors
    return cosines


def _living(segment: Segment, rows: Ints) -> Ints:
    return rows if segment.live is None else rows[segment.live[segment.uses[rows, 0]]]


def _hits(segment: int, rows: Ints, scores: Vectors) -> list[Hit]:
    return [Hit(s, segment, r) for s, r in zip(scores.tolist(), rows.tolist(), strict=True)]
