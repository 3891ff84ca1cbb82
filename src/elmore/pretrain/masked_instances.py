"""BERT's training examples: two texts of a document, or of two documents, with some pieces masked.
Drawn as in the original program; documents are arrays of piece ids, so nothing here knows words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from elmore.config import Frozen

Ids = NDArray[np.int64]
_TRIES = 10  # to draw another document


class InstancesConfig(Frozen):
    """How examples are drawn. Defaults are the original's for rows of 128."""

    length: int = Field(default=128, ge=8)
    """Positions of a row, marks included."""
    short: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of the documents whose rows are shorter, to a random length."""
    next_sentence: bool = True
    """Pairs, half of them with a second text from elsewhere; else rows of running text."""
    masked: float = Field(default=0.15, gt=0.0, lt=1.0)
    """Share of the positions to predict."""
    max_masked: int = Field(default=20, ge=1)
    """In a row. The original has 20 for 128 positions, 77 for 512."""
    as_mask: float = Field(default=0.8, ge=0.0, le=1.0)
    """Share of these that is replaced by `[MASK]`; half of the rest is kept, half is random."""
    whole_words: bool = False
    """Mask all pieces of a word together."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A row before masking."""

    ids: Ids  # (N,) [CLS] A [SEP] B [SEP], or [CLS] A [SEP]
    segments: Ids  # (N,) 0 for the first text, 1 for the second
    random_next: bool


@dataclass(frozen=True, slots=True)
class Masked:
    """A row and what is to be predicted of it."""

    ids: Ids  # (N,)
    places: Ids  # (M,) in order
    targets: Ids  # (M,) the ids that stood there


class Documents(Protocol):
    """Sentences of piece ids, by document."""

    def __len__(self) -> int: ...
    def document(self, i: int) -> Sequence[Ids]:
        """Its sentences, none of them empty."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Ids that the rows need, and which pieces continue a word."""

    begin: int
    end: int
    mask: int
    continues: NDArray[np.bool_]  # (V,)


def instances(
    documents: Documents,
    i: int,
    config: InstancesConfig,
    marks: Marks,
    rng: np.random.Generator,
) -> Iterator[Instance]:
    """The rows of document `i` in one pass."""
    room = config.length - (3 if config.next_sentence else 2)
    target = int(rng.integers(2, room + 1)) if rng.random() < config.short else room
    if config.next_sentence:
        yield from _pairs(documents, i, room, target, marks, rng)
    else:
        text = np.concatenate(documents.document(i))
        for start in range(0, len(text), target):
            yield _row(text[start : start + target], None, marks, random_next=False)


def _pairs(
    documents: Documents, i: int, room: int, target: int, marks: Marks, rng: np.random.Generator
) -> Iterator[Instance]:
    sentences, at = documents.document(i), 0
    while at < len(sentences):
        chunk: list[Ids] = []
        n = 0
        while at + len(chunk) < len(sentences) and n < target:
            chunk.append(sentences[at + len(chunk)])
            n += len(chunk[-1])
        cut = int(rng.integers(1, len(chunk))) if len(chunk) > 1 else 1
        first = np.concatenate(chunk[:cut])
        random_next = len(chunk) == 1 or rng.random() < 0.5
        if random_next:
            second = _elsewhere(documents, i, target - len(first), rng)
            at += cut  # the sentences that were not used come again
        else:
            second = np.concatenate(chunk[cut:])
            at += len(chunk)
        first, second = _shortened(first, second, room, rng)
        yield _row(first, second, marks, random_next=random_next)


def _elsewhere(documents: Documents, i: int, target: int, rng: np.random.Generator) -> Ids:
    """Text from a random place of another document; of the same one if there is no other."""
    for _ in range(_TRIES):
        other = int(rng.integers(len(documents)))
        if other != i:
            break
    sentences = documents.document(other)
    start = int(rng.integers(len(sentences)))
    found, n = [sentences[start]], len(sentences[start])
    for sentence in sentences[start + 1 :]:
        if n >= target:
            break
        found.append(sentence)
        n += len(sentence)
    return np.concatenate(found)


def _shortened(first: Ids, second: Ids, room: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Pieces of the longer text go, one at a time, from its front or its back."""
    ends = [[0, len(first)], [0, len(second)]]
    while sum(stop - start for start, stop in ends) > room:
        longer = ends[0] if ends[0][1] - ends[0][0] > ends[1][1] - ends[1][0] else ends[1]
        if rng.random() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1
    return first[slice(*ends[0])], second[slice(*ends[1])]


def _row(first: Ids, second: Ids | None, marks: Marks, *, random_next: bool) -> Instance:
    begin, end = (np.array([mark], dtype=np.int64) for mark in (marks.begin, marks.end))
    ids = np.concatenate([begin, first, end, *(() if second is None else (second, end))])
    segments = np.zeros_like(ids)
    segments[len(first) + 2 :] = 1
    return Instance(ids, segments, random_next)


def mask(ids: Ids, config: InstancesConfig, marks: Marks, rng: np.random.Generator) -> Masked:
    """Choose places and replace what stands there, by `[MASK]`, by nothing or by a random piece."""
    n = min(config.max_masked, max(1, round(config.masked * len(ids))))
    places = np.flatnonzero((ids != marks.begin) & (ids != marks.end))
    groups = _words(places, ids, marks) if config.whole_words else list(places[:, None])
    chosen: list[int] = []
    for g in rng.permutation(len(groups)):
        if len(chosen) + len(groups[g]) <= n:
            chosen.extend(groups[g])
        if len(chosen) >= n:
            break
    found = np.sort(np.array(chosen, dtype=np.int64))
    masked, how = ids.copy(), rng.random(len(found))
    masked[found[how < config.as_mask]] = marks.mask
    random = found[how >= (1 + config.as_mask) / 2]
    masked[random] = rng.integers(len(marks.continues), size=len(random))
    return Masked(masked, found, ids[found])


def _words(places: Ids, ids: Ids, marks: Marks) -> list[Ids]:
    """Places by word: a piece that continues joins the place before it."""
    starts = ~marks.continues[ids[places]]
    starts |= np.diff(places, prepend=-2) > 1  # after a mark
    return np.split(places, np.flatnonzero(starts)[1:])
