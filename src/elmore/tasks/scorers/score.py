"""What every scorer gives: named figures in percent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """Named figures in percent. The first is the main one, and higher is better."""

    figures: dict[str, float]
    notes: tuple[str, ...] = ()
    """What readers of the figures should know, one line each."""

    @property
    def main(self) -> float:
        return next(iter(self.figures.values()))


def nothing_predicted(n_expected: int) -> tuple[str, ...]:
    """The note on a score of zero that nothing but silence explains."""
    expected = f"where {n_expected:,} answers were expected"
    return (f"nothing was predicted, {expected}; train longer or on more text",)
