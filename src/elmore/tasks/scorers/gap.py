"""GAP: does a pronoun refer to one name, to the other, or to neither? Counted by the rules of the
official scorer: two decisions for each text, over all texts and by the gender of the pronoun; a
text without an answer counts as two names that were missed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from elmore.tasks.scorers.counts import Counts

FEMININE = frozenset(["she", "her", "hers"])
MASCULINE = frozenset(["he", "him", "his"])


class Referents(NamedTuple):
    """Whether the pronoun refers to the first name, and to the second."""

    a: bool
    b: bool


class GoldReferents(NamedTuple):
    """The right answer, and the pronoun."""

    pronoun: str
    referents: Referents


@dataclass(frozen=True, slots=True)
class GapScore:
    """Of all texts, and by the gender of their pronouns."""

    overall: Counts
    masculine: Counts
    feminine: Counts
    missing: int
    """Texts without an answer."""

    def by_gender(self) -> dict[str, Counts]:
        return {
            "overall": self.overall,
            "masculine": self.masculine,
            "feminine": self.feminine,
        }

    @property
    def bias(self) -> float:
        """F1 of feminine pronouns divided by that of masculine ones; 1 is none."""
        return self.feminine.f1 / self.masculine.f1 if self.masculine.f1 else 0.0


def score_gap(gold: Mapping[str, GoldReferents], found: Mapping[str, Referents]) -> GapScore:
    """By the ids of texts; answers to other ids are ignored."""
    sums = {kind: Counts() for kind in (MASCULINE, FEMININE)}
    for name, right in gold.items():
        kind = FEMININE if right.pronoun.lower() in FEMININE else MASCULINE
        sums[kind] += _counts(right.referents, found.get(name))
    masculine, feminine = sums[MASCULINE], sums[FEMININE]
    missing = len(gold.keys() - found.keys())
    return GapScore(masculine + feminine, masculine, feminine, missing)


def _counts(gold: Referents, found: Referents | None) -> Counts:
    if found is None:
        return Counts(missed=2)
    pairs = list(zip(gold, found, strict=True))
    return Counts(
        correct=sum(want and have for want, have in pairs),
        excess=sum(have and not want for want, have in pairs),
        missed=sum(want and not have for want, have in pairs),
    )
