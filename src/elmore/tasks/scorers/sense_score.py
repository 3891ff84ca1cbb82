"""Word senses as the scorer of the unified WSD evaluation counts them."""

from collections.abc import Sequence
from dataclasses import dataclass


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
