"""Senses by the nearest neighbor, one lemma after another: two rules that compare a use with the
tagged uses of its lemma.
"""

# n tagged uses and m asked for of one lemma, S its senses, D vector dim
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import LayerSource
from elmore.tasks.readers.raganato import Lemma, SenseUse
from elmore.uses.geometry import Floats, unit
from elmore.uses.use import Use
from elmore.uses.use_vectors import SentenceWatch, use_vectors, view, views

_AS_NEAR = 1e-5  # cosines of equal vectors differ by at most this much, from rounding

Tags = NDArray[np.float32]  # (n, S), 1 where a use is of a sense
Rule = Callable[[Floats, Tags, Floats], NDArray[np.int64]]
InSentence = tuple[tuple[str, ...], SenseUse]  # the words of the sentence, and a use in it


def by_mean(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense whose uses have the nearest mean."""
    means = tags.T @ known / tags.sum(axis=0)[:, None]  # (S, D)
    near = unit(asked) @ unit(means).T  # (m, S)
    return _first_best(near)


def by_nearest(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense of the nearest use; if several are equally near, the sense most of them have."""
    near = unit(asked) @ unit(known).T  # (m, n)
    nearest = near >= near.max(axis=1, keepdims=True) - _AS_NEAR
    return _first_best(nearest.astype(np.float32) @ tags)  # (m, S) votes


RULES: dict[str, Rule] = {"mean": by_mean, "nearest": by_nearest}


def _first_best(scores: Floats) -> NDArray[np.int64]:
    """The first of the best: the most frequent sense comes first and wins ties."""
    equal = scores >= scores.max(axis=1, keepdims=True) - _AS_NEAR
    return np.asarray(equal.argmax(axis=1))  # (m,)


def nearest_senses(
    source: LayerSource,
    senses: dict[Lemma, list[str]],
    known: Sequence[InSentence],
    asked: Sequence[InSentence],
    watch: SentenceWatch,
) -> dict[tuple[str, str], dict[int, str]]:
    """For each (vectors, rule), the senses found, by the place of the use in `asked`. Lemmas with
    one sense are not embedded and not answered here."""
    several = {lemma for lemma, found in senses.items() if len(found) > 1}
    uses = [(words, use) for words, use in (*known, *asked) if use.lemma in several]
    spans = [Use(words, use.start, use.stop - use.start) for words, use in uses]
    vectors = use_vectors(source, spans, watch)
    n_known = sum(use.lemma in several for _, use in known)
    places = [place for place, (_, use) in enumerate(asked) if use.lemma in several]
    rows_of: dict[Lemma, list[int]] = defaultdict(list)
    for row, (_, use) in enumerate(uses):
        rows_of[use.lemma].append(row)
    ways: dict[tuple[str, str], dict[int, str]] = {
        (name, rule): {} for name in views(source.n_layers) for rule in RULES
    }
    for lemma, rows in rows_of.items():
        split = bisect_left(rows, n_known)
        seen, new = np.array(rows[:split]), np.array(rows[split:])  # (n,), (m,)
        own = senses[lemma]
        tags = np.array([[s in uses[row][1].senses for s in own] for row in seen], np.float32)
        for (name, rule), found in ways.items():
            best = RULES[rule](view(vectors, name, seen), tags, view(vectors, name, new))
            found |= {places[row - n_known]: own[s] for row, s in zip(new, best, strict=True)}
    return ways
