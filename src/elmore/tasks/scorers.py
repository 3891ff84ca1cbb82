"""Predictions compared with the right answers: plain functions, no torch."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from elmore.tasks.spans import spans_of

_NOTHING = "nothing was predicted, where {:,} answers were expected; train longer or on more text"


@dataclass(frozen=True, slots=True)
class Score:
    """Named figures in percent. The first is the main one, and higher is better."""

    figures: dict[str, float]
    notes: tuple[str, ...] = ()
    """What readers of the figures should know, one line each."""

    @property
    def main(self) -> float:
        return next(iter(self.figures.values()))


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


def span_score(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Score:
    """Precision, recall and F1 over the spans of all sentences, as conlleval counts them: a span is
    right if both ends and the kind are right."""
    right = n_gold = n_found = 0
    for tags, guesses in zip(gold, found, strict=True):
        want, have = set(spans_of(tags)), set(spans_of(guesses))
        right, n_gold, n_found = right + len(want & have), n_gold + len(want), n_found + len(have)
    precision, recall = right / max(n_found, 1), right / max(n_gold, 1)
    f1 = 2 * right / max(n_gold + n_found, 1)
    figures = {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}
    return Score(figures, (_NOTHING.format(n_gold),) if n_gold and not n_found else ())


# Answers as SQuAD's own script counts them --------------------------------------------------------


def squad_score(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> Score:
    """Of each question, the right answer that fits the prediction best counts."""
    pairs = list(zip(answers, predictions, strict=True))
    f1 = sum(max(token_f1(guess, answer) for answer in right) for right, guess in pairs)
    exact = sum(max(exact_match(guess, answer) for answer in right) for right, guess in pairs)
    figures = {"F1": 100 * f1 / len(pairs), "exact match": 100 * exact / len(pairs)}
    nothing = pairs and not any(guess.strip() for _, guess in pairs)
    return Score(figures, (_NOTHING.format(len(pairs)),) if nothing else ())


def normalized(text: str) -> str:
    """Lower case, without punctuation and articles."""
    bare = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact_match(prediction: str, answer: str) -> bool:
    return normalized(prediction) == normalized(answer)


def token_f1(prediction: str, answer: str) -> float:
    """F1 over the words of two texts, repeated words counted as often as both have them."""
    ours, theirs = normalized(prediction).split(), normalized(answer).split()
    n_shared = (Counter(ours) & Counter(theirs)).total()
    return 2 * n_shared / (len(ours) + len(theirs)) if n_shared else 0.0


# Word senses as the scorer of the unified WSD evaluation counts them ------------------------------


@dataclass(frozen=True, slots=True)
class SenseScore:
    """An instance without an answer lowers recall only."""

    instances: int
    answered: int
    right: int

    @property
    def precision(self) -> float:
        return 100 * self.right / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        return 100 * self.right / self.instances if self.instances else 0.0

    @property
    def f1(self) -> float:
        both = self.instances + self.answered
        return 100 * 2 * self.right / both if both else 0.0

    def __add__(self, other: "SenseScore") -> "SenseScore":
        return SenseScore(
            self.instances + other.instances,
            self.answered + other.answered,
            self.right + other.right,
        )


def score_senses(gold: Sequence[Sequence[str]], answers: Sequence[str | None]) -> SenseScore:
    """The senses that are right for each instance, and its answer; None is no answer."""
    given = [(senses, answer) for senses, answer in zip(gold, answers, strict=True) if answer]
    return SenseScore(len(gold), len(given), sum(answer in senses for senses, answer in given))
