"""An index as it was at one moment: its segments, and the searches in them. It never changes; when
the folder has changed, a new snapshot is opened.
"""

# n uses, m uses looked at, D vector dim, W words
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmore.embedding import Sentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.models.lens import Lens
from elmore.models.static import StaticVectors
from elmore.search.answers import Neighbor, StaticNeighbor
from elmore.search.approximate import Approximate
from elmore.search.checked_files import Ints, Rows
from elmore.search.index_writer import open_segments
from elmore.search.manifest import Manifest, settled
from elmore.search.sampling import ListedWords, pieces
from elmore.search.segment import Segment
from elmore.search.vector_space import Layer, Query, read_vector_space
from elmore.uses.geometry import centered, unit
from elmore.uses.use import Surroundings, Use

_CANDIDATES = 200
_CHUNK = 65_536


class Hit(NamedTuple):
    """A use that was found."""

    score: float
    segment: int
    row: int


class IndexSnapshot:
    """The segments that one manifest names."""

    def __init__(self, path: Path, manifest: Manifest):
        self.path, self.manifest = path, manifest
        self.segments = open_segments(path, manifest)
        self.space = read_vector_space(path, manifest)
        self._listed = ListedWords(path, manifest)
        self._starts = np.cumsum([0, *(segment.state.uses for segment in self.segments)])
        self._approximate: Approximate | None = None
        if manifest.approximate is not None:
            self._approximate = Approximate(
                path / manifest.approximate, manifest.keep, manifest.approximate_files
            )

    @classmethod
    def open(cls, path: Path) -> "IndexSnapshot":
        return settled(path, lambda manifest: cls(path, manifest))

    @property
    def n_uses(self) -> int:
        return sum(segment.state.uses for segment in self.segments)

    @cached_property
    def words(self) -> list[str]:
        return sorted({word for segment in self.segments for word in segment.live_words})

    @cached_property
    def counts(self) -> dict[str, int]:
        """How often each listed word occurs in the corpus."""
        return self._listed.counts()

    @cached_property
    def frequencies(self) -> dict[str, int]:
        """How often each word with uses occurs: in the corpus, or in the index if that is more."""
        kept = Counter[str]()
        for segment in self.segments:
            kept.update(segment.use_counts)
        return {word: max(n, self.counts.get(word, 0)) for word, n in kept.items()}

    def __contains__(self, word: str) -> bool:
        return any(word in segment for segment in self.segments)

    def known(self, word: str) -> str:
        """The indexed spelling: as written, or else in lower case."""
        for spelling in (word, word.lower()):
            if spelling in self:
                return spelling
        near = get_close_matches(word, self.words, n=3)
        hint = f" (similar: {', '.join(near)})" if near else ""
        raise InputError(f"{word!r} is not an indexed word of {self.path}{hint}.")

    def uses(self, word: str) -> list[Use]:
        return [
            self._use(Hit(0.0, i, row))
            for i, segment in enumerate(self.segments)
            for row in segment.rows(self.known(word)).tolist()
        ]

    def vectors(self, word: str, layer: Layer | None) -> Vectors:
        """The unit vectors of all uses of a word, in the order of `uses`: (n, D)."""
        weights, known = self.space.weights(layer), self.known(word)
        parts = [segment.vectors(segment.rows(known), weights) for segment in self.segments]
        return unit(np.concatenate(parts))

    # Neighbors ----------------------------------------------------------------------------------

    def neighbors(
        self,
        vectors: Vectors,
        word: str | None,
        k: int,
        layer: Layer | None,
        distinct: bool,
        without: Sequence[Sentence],
        lens: Lens | None,
    ) -> list[Neighbor]:
        """The uses nearest to a word's layers, (L, D)."""
        if k < 1:
            raise ConfigError(f"k is {k}; expected 1 or more.")
        query = self.space.query(np.asarray(vectors, np.float32), layer, lens)
        passed = {read.packed for read in pieces(without)}
        if word is not None:
            hits = nearest_in_word(self.segments, query, self.known(word))
            return list(self._chosen(hits, k, passed, distinct))
        n = max(_CANDIDATES, 4 * k)
        while True:
            n = min(n, self.n_uses)
            hits = nearest(self.segments, self._approximate, query, n)
            found = list(self._chosen(hits, k, passed, distinct))
            if len(found) == k or n == self.n_uses:
                return found
            n *= 4

    def _chosen(
        self, hits: list[Hit], k: int, passed: set[bytes], distinct: bool
    ) -> Iterator[Neighbor]:
        seen = set(passed)
        for hit in hits:
            segment = self.segments[hit.segment]
            packed = segment.packed(int(segment.uses[hit.row][0]))
            if packed in seen:
                continue
            if distinct:
                seen.add(packed)
            yield Neighbor(self._use(hit), hit.score)
            k -= 1
            if not k:
                return

    def _use(self, hit: Hit) -> Use:
        return self.segments[hit.segment].use(hit.row, int(self._starts[hit.segment]) + hit.row)

    def use(self, number: int) -> tuple[Use, Surroundings | None]:
        """The use with this id, and the passage around its sentence."""
        if not 0 <= number < self.n_uses:
            raise InputError(f"{self.path} has no use {number}; expected 0 to {self.n_uses - 1}.")
        home = int(np.searchsorted(self._starts, number, side="right")) - 1
        row = number - int(self._starts[home])
        segment = self.segments[home]
        return segment.use(row, number), segment.surroundings(row)

    def static_neighbors(
        self, word: str, k: int, vectors: StaticVectors | None
    ) -> list[StaticNeighbor]:
        """Words with the same vector, as Bank and bank to a model that lowercases, are one word,
        named by its most frequent spelling."""
        known = self.known(word)
        names, table = self._static if vectors is None else _looked_up(self.words, vectors)
        if known not in names:
            return []
        own, listed = names[known], list(names)
        scores = np.clip(table @ table[own], -1, 1)
        found: dict[bytes, StaticNeighbor] = {}  # by vector
        for i in np.argsort(-scores, kind="stable"):
            vector = table[i].tobytes()
            if vector == table[own].tobytes():
                continue
            if vector not in found and len(found) == k:
                break
            near = StaticNeighbor(listed[i], float(scores[i]))
            other = found.setdefault(vector, near)
            if self.counts.get(near.word, 0) > self.counts.get(other.word, 0):
                found[vector] = near
        return list(found.values())

    @cached_property
    def _static(self) -> tuple[dict[str, int], Vectors]:
        """The row of every word, and unit vectors, (W, D)."""
        names: dict[str, int] = {}
        parts = []
        for segment in self.segments:
            new = [word for word in segment.live_words if word not in names]
            names.update(zip(new, count(len(names)), strict=False))
            parts += [segment.static_vector(word) for word in new]
        table = np.stack(parts) if parts else np.zeros((0, self.manifest.dim), np.float32)
        return names, unit(centered(table, np.float32))


def _looked_up(words: list[str], vectors: StaticVectors) -> tuple[dict[str, int], Vectors]:
    found = [(word, row) for word in words if (row := vectors.row(word)) is not None]
    table = vectors.vectors[[row for _, row in found]].astype(np.float32)
    return {word: i for i, (word, _) in enumerate(found)}, unit(table)


# The nearest uses: by a matrix product, or candidates of the approximate index, compared again ----


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
            rows = approximate.candidates(query, n)
            rows = segment.living(rows[rows < segment.state.uses])
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
    rows = segment.living(np.arange(n_uses))
    if n < len(rows):
        rows = rows[np.argpartition(-scores[rows], n)[:n]]
    return rows, scores[rows]


def _cosines(segment: Segment, rows: Rows, query: Query) -> Vectors:
    vectors = unit(segment.vectors(rows, query.weights))  # (m, D)
    cosines: Vectors = np.clip(vectors @ query.seen(query.weights), -1, 1)  # rounding errors
    return cosines


def _hits(segment: int, rows: Ints, scores: Vectors) -> list[Hit]:
    return [Hit(s, segment, r) for s, r in zip(scores.tolist(), rows.tolist(), strict=True)]
