"""The result of every scorer."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Score:
    """Named figures in percent. The first is the main one, and higher is better."""

    figures: dict[str, float]
    notes: tuple[str, ...] = field(default=())
    """What readers of the figures should know, one line each."""

    @property
    def main(self) -> float:
        return next(iter(self.figures.values()))
