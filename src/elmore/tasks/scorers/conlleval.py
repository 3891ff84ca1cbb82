"""Spans as conlleval counts them: a span is right if both ends and the kind are right."""

from collections import Counter
from collections.abc import Sequence

from elmore.tasks.scorers.counts import Counts, LabelCounts
from elmore.tasks.scorers.score import Score, nothing_found
from elmore.tasks.spans import spans_of


def span_counts(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> LabelCounts:
    """Over the spans of all sentences, by kind."""
    right, wanted, had = Counter[str](), Counter[str](), Counter[str]()
    for tags, guesses in zip(gold, found, strict=True):
        want, have = set(spans_of(tags)), set(spans_of(guesses))
        right.update(span.kind for span in want & have)
        wanted.update(span.kind for span in want)
        had.update(span.kind for span in have)
    labels = {
        kind: Counts(right[kind], had[kind] - right[kind], wanted[kind] - right[kind])
        for kind in sorted(wanted | had)
    }
    return LabelCounts(sum(labels.values(), Counts()), labels)


def span_score(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Score:
    """F1, precision and recall over the spans of all sentences."""
    counts = span_counts(gold, found).overall
    figures = {"f1": counts.f1, "precision": counts.precision, "recall": counts.recall}
    return Score(figures, nothing_found(counts.expected, counts.found))
