"""What is right, what is too much and what is missing; precision, recall and F1 in percent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Of predicted things compared with the gold ones; 0 where there is nothing to divide by."""

    correct: int = 0
    excess: int = 0
    """Predicted, but not in the gold annotation."""
    missed: int = 0

    @property
    def expected(self) -> int:
        return self.correct + self.missed

    @property
    def found(self) -> int:
        return self.correct + self.excess

    @property
    def precision(self) -> float:
        return 100 * (self.correct / max(self.found, 1))

    @property
    def recall(self) -> float:
        return 100 * (self.correct / max(self.expected, 1))

    @property
    def f1(self) -> float:
        return 100 * (2 * self.correct / max(self.found + self.expected, 1))

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.correct + other.correct, self.excess + other.excess, self.missed + other.missed
        )

    def figures(self) -> dict[str, float]:
        return {
            "correct": self.correct,
            "excess": self.excess,
            "missed": self.missed,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
        }


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Of all labels together, and of each in alphabetical order."""

    overall: Counts
    labels: dict[str, Counts]

    def figures(self) -> dict[str, dict[str, float] | dict[str, dict[str, float]]]:
        labels = {label: counts.figures() for label, counts in self.labels.items()}
        return {"overall": self.overall.figures(), "labels": labels}
