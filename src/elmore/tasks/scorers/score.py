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


def nothing_found(expected: int, found: int) -> tuple[str, ...]:
    """A note where a model has predicted nothing at all."""
    note = f"nothing was predicted, where {expected:,} answers were expected; train longer or on"
    return (f"{note} more text",) if expected and not found else ()
