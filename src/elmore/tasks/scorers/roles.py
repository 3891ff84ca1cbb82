"""Semantic roles as srl-eval.pl of CoNLL-2005 counts them. An argument is right if its role and all
its pieces are right; `R-X` is a role of its own, and the predicate itself (V) is never counted.

A predicted proposition that gold does not have is skipped: with predicted predicates, exchange the
two files for the precision. One that is missing, or whose lemma is another, has no arguments.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmore.tasks.propositions import PREDICATE, Argument, Proposition, arguments_of
from elmore.tasks.scorers.counts import Counts, LabelCounts


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """`counts` by role, V among them; `overall` is without V."""

    counts: LabelCounts
    sentences: int
    propositions: int
    perfect: float
    """Propositions with every argument right and none too many, in percent."""
    missing: int
    """Gold propositions without a predicted one."""
    skipped: int
    """Predicted propositions without a gold one."""
    other_lemmas: int

    def figures(self) -> dict[str, Any]:
        found = self.counts.figures()
        more = {
            "perfect": self.perfect,
            "propositions": self.propositions,
            "sentences": self.sentences,
        }
        return {"overall": {**found["overall"], **more}, "labels": found["labels"]}


Sentence = Sequence[Proposition]


def role_counts(gold: Sequence[Sentence], found: Sequence[Sentence]) -> RoleCounts:
    """The propositions of each sentence, gold and predicted."""
    right, excess, missed = Counter[str](), Counter[str](), Counter[str]()
    total = perfect = missing = skipped = other_lemmas = 0
    for wanted, had in zip(gold, found, strict=True):
        by_place = {proposition.predicate: proposition for proposition in had}
        skipped += len(by_place.keys() - {proposition.predicate for proposition in wanted})
        for proposition in wanted:
            guess = by_place.get(proposition.predicate)
            missing += guess is None
            if guess is not None and guess.lemma != proposition.lemma:
                other_lemmas += 1
                guess = None
            want = Counter(arguments_of(proposition.pieces))
            have = Counter(arguments_of(guess.pieces)) if guess is not None else Counter[Argument]()
            for counter, arguments in (
                (right, want & have),
                (excess, have - want),
                (missed, want - have),
            ):
                counter.update(argument.role for argument in arguments.elements())
            wrong = (want - have) + (have - want)
            perfect += all(argument.role == PREDICATE for argument in wrong)
            total += 1
    labels = {
        role: Counts(right[role], excess[role], missed[role])
        for role in sorted(right | excess | missed)
    }
    counted = (counts for role, counts in labels.items() if role != PREDICATE)
    return RoleCounts(
        LabelCounts(sum(counted, Counts()), labels),
        sentences=len(gold),
        propositions=total,
        perfect=100 * perfect / max(total, 1),
        missing=missing,
        skipped=skipped,
        other_lemmas=other_lemmas,
    )


def subset(sentences: Sequence[Sentence], *, verbs: bool) -> list[Sentence]:
    """Only the propositions whose predicate is a verb, or only the others."""
    return [[p for p in sentence if p.is_verb == verbs] for sentence in sentences]
