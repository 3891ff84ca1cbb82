"""Spans as conlleval counts them: a span is right if both ends and the kind are right."""

from collections.abc import Sequence

from elmore.tasks.scorers.score import Score
from elmore.tasks.spans import spans_of


def span_score(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Score:
    """Precision, recall and F1 over the spans of all sentences."""
    right = n_gold = n_found = 0
    for tags, guesses in zip(gold, found, strict=True):
        want, have = set(spans_of(tags)), set(spans_of(guesses))
        right, n_gold, n_found = right + len(want & have), n_gold + len(want), n_found + len(have)
    precision, recall = right / max(n_found, 1), right / max(n_gold, 1)
    f1 = 2 * right / max(n_gold + n_found, 1)
    return Score({"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall})
