"""The table of a comparison as text: one row per encoder and training size."""

from collections.abc import Sequence
from statistics import fmean

from elmore.tasks.compare.outcome import Summary, label
from elmore.tasks.encoders.source import LearnedMix


def heading(rows: Sequence[Summary]) -> list[str]:
    figures = [rows[0].measure, "gain", *list(rows[0].scores)[1:]]
    return [
        "encoder", "examples", *figures, "seeds", "seconds", "trainable", "frozen", "s_0 … s_L (γ)",
    ]  # fmt: skip


def cells(row: Summary, names: dict[str, str]) -> list[str]:
    others = [f"{fmean(found):.2f}" for found in list(row.scores.values())[1:]]
    sizes = (round(row.seconds), row.trainable, row.frozen)
    counts = ["unknown" if n is None else f"{n:,}" for n in sizes]
    figures = [mean_and_spread(row), gain(row, names), *others, _seeds(row)]
    return [names[row.encoder], f"{row.examples:,}", *figures, *counts, _mixes(row)]


def mean_and_spread(row: Summary) -> str:
    return f"{row.mean:.2f}" + (f" ± {row.spread:.2f}" if row.spread is not None else "")


def _seeds(row: Summary) -> str:
    failed = f", {row.failed} failed" if row.failed else ""
    return f"{len(row.scores[row.measure])}{failed}"


def gain(row: Summary, names: dict[str, str]) -> str:
    """With the seeds in which it holds; where there is none it says so in words."""
    if row.gain is None:
        return ""
    found, over = row.gain, names[row.gain.over]
    verdict = "over" if found.difference > 0 else "NOT above"
    return f"{found.difference:+.2f} {verdict} {over} ({found.seeds_above}/{found.seeds})"


def _mixes(row: Summary) -> str:
    return "; ".join(f"{mix_name(mix)} {_weights(mix)}" for mix in mean_mixes(row))


def mix_name(mix: LearnedMix) -> str:
    return f"{label(mix.source)} {mix.place}"


def _weights(mix: LearnedMix) -> str:
    return f"{' '.join(f'{weight:.2f}' for weight in mix.weights)} ({mix.gamma:.2f})"


def mean_mixes(row: Summary) -> list[LearnedMix]:
    """Each mix, averaged over the seeds."""
    return [
        LearnedMix(
            source=same[0].source,
            place=same[0].place,
            weights=tuple(fmean(s) for s in zip(*(mix.weights for mix in same), strict=True)),
            gamma=fmean(mix.gamma for mix in same),
        )
        for same in zip(*row.mixes, strict=True)
    ]


def markdown(table: list[list[str]]) -> str:
    """Aligned, so that it reads well as it is; the first column left, the others right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [table[0], rule, *table[1:]]
    return "".join(f"| {' | '.join(_aligned(line, widths))} |\n" for line in lines)


def _aligned(line: list[str], widths: list[int]) -> list[str]:
    return [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
