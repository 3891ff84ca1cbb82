"""Senses by the nearest neighbor, one lemma after another: two rules that compare a use with the
tagged uses of its lemma.
"""

# L layers, n tagged uses and m asked for of one lemma, S its senses, D vector dim
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from elmore.tasks.readers.raganato import Lemma, SenseUse
from elmore.uses.geometry import unit
from elmore.uses.use_vectors import Floats, Half, Rows, view

_AS_NEAR = 1e-5  # cosines of equal vectors differ by at most this much, from rounding

Tags = NDArray[np.float32]  # (n, S), 1 where a use is of a sense
Rule = Callable[[Floats, Tags, Floats], NDArray[np.int64]]


def by_mean(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense whose uses have the nearest mean."""
    means = tags.T @ known / tags.sum(axis=0)[:, None]  # (S, D)
    near = unit(asked) @ unit(means).T  # (m, S)
    return _first_best(near)


def by_nearest(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense of the nearest use; of several as near, the sense most of them have."""
    near = unit(asked) @ unit(known).T  # (m, n)
    nearest = near >= near.max(axis=1, keepdims=True) - _AS_NEAR
    return _first_best(nearest.astype(np.float32) @ tags)  # (m, S) votes


RULES: dict[str, Rule] = {"mean": by_mean, "nearest": by_nearest}


def _first_best(scores: Floats) -> NDArray[np.int64]:
    """The most frequent sense comes first, and is taken where scores are equal."""
    equal = scores >= scores.max(axis=1, keepdims=True) - _AS_NEAR
    return np.asarray(equal.argmax(axis=1))  # (m,)


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A lemma of several senses: which rows of the vectors are its uses."""

    senses: list[str]
    known: Rows  # (n,)
    tags: Tags  # (n, S)
    asked: Rows  # (m,)
    places: list[int]
    """Which instances the asked ones are, counted over all sets."""


def ambiguous(
    several: dict[Lemma, list[str]], known: list[SenseUse], asked: list[SenseUse]
) -> list[Ambiguous]:
    """The rows of the vectors are the known uses first, then the asked ones."""
    tagged: dict[Lemma, list[tuple[int, SenseUse]]] = defaultdict(list)
    questions: dict[Lemma, list[tuple[int, int]]] = defaultdict(list)
    row = count()
    for use in known:
        if use.lemma in several:
            tagged[use.lemma].append((next(row), use))
    for place, use in enumerate(asked):
        if use.lemma in several:
            questions[use.lemma].append((next(row), place))
    return [
        Ambiguous(
            senses,
            np.array([row for row, _ in tagged[lemma]]),
            np.array([[s in use.senses for s in senses] for _, use in tagged[lemma]], np.float32),
            np.array([row for row, _ in questions[lemma]]),
            [place for _, place in questions[lemma]],
        )
        for lemma, senses in several.items()
    ]


def answers(
    lemmas: Sequence[Ambiguous], vectors: Half, name: str, rule: str
) -> Iterator[tuple[int, str]]:
    for lemma in lemmas:
        known, asked = view(vectors, name, lemma.known), view(vectors, name, lemma.asked)
        for place, sense in zip(lemma.places, RULES[rule](known, lemma.tags, asked), strict=True):
            yield place, lemma.senses[sense]
