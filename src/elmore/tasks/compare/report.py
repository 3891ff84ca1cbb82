"""Everything a comparison found, as a table in Markdown and as JSON; `page.py` draws it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from elmore.tasks.compare.outcome import Failed, Summary, label, labels
from elmore.tasks.encoders.source import LearnedMix


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a comparison found."""

    task: str
    settings: dict[str, Any]
    """Files and settings shared by every row."""
    rows: list[Summary]
    failures: list[Failed]
    notes: tuple[str, ...] = ()
    """What readers should know, such as examples that could not be used."""

    def table(self) -> list[list[str]]:
        """A heading and one line per encoder and training size, as text."""
        first = self.rows[0]
        heading = [
            "encoder", "examples", first.measure, "gain", *list(first.scores)[1:],
            "seeds", "seconds", "trainable", "frozen", "s_0 … s_L (γ)",
        ]  # fmt: skip
        names = labels(row.encoder for row in self.rows)
        return [heading, *(_cells(row, names) for row in self.rows)]

    def markdown(self) -> str:
        return markdown(self.table()) if self.rows else "Nothing is finished yet.\n"

    def json(self) -> str:
        rows = [
            row.model_dump(mode="json")
            | {"measure": row.measure, "mean": row.mean, "spread": row.spread}
            for row in self.rows
        ]
        content = {
            "task": self.task,
            "settings": self.settings,
            "rows": rows,
            "notes": list(self.notes),
            "failures": [failed.model_dump(mode="json") for failed in self.failures],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cells(row: Summary, names: dict[str, str]) -> list[str]:
    others = [f"{fmean(found):.2f}" for found in list(row.scores.values())[1:]]
    seeds = f"{len(row.seeds)}" + (f", {row.failed} failed" if row.failed else "")
    sizes = (round(row.seconds), row.trainable, row.frozen)
    counts = ["unknown" if n is None else f"{n:,}" for n in sizes]
    mixes = "; ".join(
        f"{mix_name(mix)} {' '.join(f'{weight:.2f}' for weight in mix.weights)} ({mix.gamma:.2f})"
        for mix in mean_mixes(row)
    )
    figures = [mean_and_spread(row), gain(row, names), *others, seeds]
    return [names[row.encoder], f"{row.examples:,}", *figures, *counts, mixes]


def mean_and_spread(row: Summary) -> str:
    return f"{row.mean:.2f}" + (f" ± {row.spread:.2f}" if row.spread is not None else "")


def gain(row: Summary, names: dict[str, str]) -> str:
    """With the number of seeds in which it holds; a gain that is none is marked in words."""
    if row.gain is None:
        return ""
    found, over = row.gain, names[row.gain.over]
    verdict = "over" if found.difference > 0 else "NOT above"
    return f"{found.difference:+.2f} {verdict} {over} ({found.seeds_above}/{found.seeds})"


def mix_name(mix: LearnedMix) -> str:
    return f"{label(mix.source)} {mix.place}"


def mean_mixes(row: Summary) -> list[LearnedMix]:
    """Each mix, averaged over the seeds."""
    return [
        same[0].model_copy(
            update={
                "weights": tuple(fmean(s) for s in zip(*(m.weights for m in same), strict=True)),
                "gamma": fmean(mix.gamma for mix in same),
            }
        )
        for same in zip(*row.mixes, strict=True)
    ]


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Aligned, so that it is readable as plain text; the first column left, the others right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    text = ""
    for first, *others in (table[0], rule, *table[1:]):
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        text += f"| {' | '.join([first.ljust(widths[0]), *right])} |\n"
    return text
