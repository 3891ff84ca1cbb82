"""Answers as SQuAD's own script counts them."""

import re
import string
from collections import Counter
from collections.abc import Sequence

from elmore.tasks.scorers.score import Score, nothing_found


def squad_score(answers: Sequence[Sequence[str]], predictions: Sequence[str | None]) -> Score:
    """Of each question, the right answer that fits the prediction best counts. A question without
    a prediction (None) is wrong, also where nothing is left of the right answer ("the")."""
    pairs = list(zip(answers, predictions, strict=True))
    given = [(right, guess) for right, guess in pairs if guess is not None]
    f1 = sum(max(token_f1(guess, answer) for answer in right) for right, guess in given)
    exact = sum(max(exact_match(guess, answer) for answer in right) for right, guess in given)
    figures = {"F1": 100 * f1 / len(pairs), "exact match": 100 * exact / len(pairs)}
    return Score(figures, nothing_found(len(pairs), sum(bool(guess.strip()) for _, guess in given)))


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
