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
