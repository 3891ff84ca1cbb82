"""Everything a comparison found: summaries over seeds, as a table in Markdown and as JSON.
`page.py` draws it.

Seeds are paired: with one seed every encoder is trained on the same examples in the same order, so
a gain counts the seeds in which it holds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean, stdev
from typing import Any

from elmore.config import Frozen
from elmore.html import html_cell, html_table
from elmore.tasks.compare.trials import Done, Failed, label, labels, names_in
from elmore.tasks.encoders.source import LearnedMix
from elmore.tasks.markdown import markdown


class Gain(Frozen):
    """How far an encoder is above the largest other encoder that it contains."""

    over: str
    difference: float
    """Of the means, over the seeds that both finished."""
    seeds_above: int
    seeds: int


class Summary(Frozen):
    """One row of the table: an encoder at one training size, over its seeds."""

    encoder: str
    fraction: float
    examples: int
    scores: dict[str, tuple[float, ...]]
    """By name, a figure for each finished seed."""
    failed: int
    seconds: float
    """Wall time of one training, mean; the embedding of the corpus, once for all, not counted."""
    peak: int | None
    """Bytes, the most of all seeds; None where it is not known."""
    trainable: int
    frozen: int | None
    """None where the model behind a store is not known."""
    mixes: tuple[tuple[LearnedMix, ...], ...]  # [seed][mix]
    gain: Gain | None

    @property
    def measure(self) -> str:
        return next(iter(self.scores))

    @property
    def seeds(self) -> tuple[float, ...]:
        """The main score of each finished seed."""
        return self.scores[self.measure]

    @property
    def mean(self) -> float:
        return fmean(self.seeds)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; one seed has none."""
        return stdev(self.seeds) if len(self.seeds) > 1 else None


def summarize(outcomes: Iterable[Done | Failed]) -> list[Summary]:
    """A row for each encoder and size that has a finished seed, in the order they came."""
    groups: dict[tuple[str, float], list[Done | Failed]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.trial.encoder, outcome.trial.fraction), []).append(outcome)
    finished = {key: [o for o in group if o.kind == "done"] for key, group in groups.items()}
    return [
        _summary(done, len(groups[key]) - len(done), _contained(key, finished))
        for key, done in finished.items()
        if done
    ]


def _summary(done: list[Done], failed: int, base: list[Done]) -> Summary:
    first = done[0]
    return Summary(
        encoder=first.trial.encoder,
        fraction=first.trial.fraction,
        examples=first.examples,
        scores={name: tuple(o.scores[name] for o in done) for name in first.scores},
        failed=failed,
        seconds=fmean(o.seconds for o in done),
        peak=max((o.peak for o in done if o.peak is not None), default=None),
        trainable=first.trainable,
        frozen=first.frozen,
        mixes=tuple(o.mixes for o in done),
        gain=_gain(done, base),
    )


def _gain(done: Sequence[Done], base: Sequence[Done]) -> Gain | None:
    after, before = (
        {o.trial.seed: next(iter(o.scores.values())) for o in own} for own in (done, base)
    )
    pairs = [(score, before[seed]) for seed, score in after.items() if seed in before]
    if not pairs:
        return None
    return Gain(
        over=base[0].trial.encoder,
        difference=fmean(a - b for a, b in pairs),
        seeds_above=sum(a > b for a, b in pairs),
        seeds=len(pairs),
    )


def _contained(key: tuple[str, float], finished: dict[tuple[str, float], list[Done]]) -> list[Done]:
    """The largest encoder at the same size whose sources are a proper subset of this one's."""
    own = names_in(key[0])
    smaller = [
        (len(names_in(encoder)), done)
        for (encoder, fraction), done in finished.items()
        if fraction == key[1] and names_in(encoder) < own and done
    ]
    return max(smaller, key=lambda found: found[0], default=(0, []))[1]


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
            "seeds", "seconds", "peak MB", "trainable", "frozen", "s_0 … s_L (γ)",
        ]  # fmt: skip
        names = labels(row.encoder for row in self.rows)
        return [heading, *(_cells(row, names) for row in self.rows)]

    def _repr_html_(self) -> str:
        """For notebooks: the table, and its notes below."""
        if not self.rows:
            return html_table([[html_cell(self.markdown())]])
        head, *rows = self.table()
        cells = [[html_cell(text, head=True) for text in head]]
        cells += [[html_cell(text) for text in row] for row in rows]
        return html_table(cells) + "".join(f"<p>{escape(note)}</p>" for note in self.notes)

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
    megabytes = None if row.peak is None else round(row.peak / 1e6)
    sizes = (round(row.seconds), megabytes, row.trainable, row.frozen)
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
