"""The share of labels that are right: one per example, or one per word."""

from collections.abc import Sequence

from elmore.tasks.scorers.score import Score


def label_accuracy(gold: Sequence[str | None], found: Sequence[str]) -> Score:
    """One label per example."""
    right = sum(label == guess for label, guess in zip(gold, found, strict=True))
    same = len(found) > 9 and len(set(found)) == 1 < len(set(gold))
    notes = (f"every prediction is {found[0]!r}",) if same else ()
    return Score({"accuracy": 100 * right / max(len(gold), 1)}, notes)


def tag_accuracy(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Score:
    """One tag per word."""
    pairs = [pair for row in zip(gold, found, strict=True) for pair in zip(*row, strict=True)]
    return Score({"accuracy": 100 * sum(a == b for a, b in pairs) / max(len(pairs), 1)})
