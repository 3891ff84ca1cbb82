"""A comparison as its reader sees it: a table in Markdown, the same as JSON, and a page with plots
that needs no network and no script, in light and dark, on a desk and on a phone.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import Any

from elmore.tasks.compare.outcome import Failed, Summary, label, labels
from elmore.tasks.compare.plots import (
    N_COLOURS,
    Bars,
    Line,
    Row,
    layer_weights,
    points_by_encoder,
    score_against_size,
)
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
    """What of the examples could not be used as it stood."""

    @property
    def largest(self) -> list[Summary]:
        """The rows trained on the most: those the first two plots show."""
        most = max(row.fraction for row in self.rows)
        return [row for row in self.rows if row.fraction == most]

    def table(self) -> list[list[str]]:
        """A heading and a line for each row, as text."""
        names = labels(row.encoder for row in self.rows)
        return [_heading(self.rows), *(_cells(row, names) for row in self.rows)]

    def markdown(self) -> str:
        return markdown(self.table()) if self.rows else "Nothing is finished yet.\n"

    def json(self) -> str:
        content = {
            "task": self.task,
            "settings": self.settings,
            "rows": [_row_values(row) for row in self.rows],
            "notes": list(self.notes),
            "failures": [failed.model_dump(mode="json") for failed in self.failures],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def page(self) -> str:
        """One HTML file."""
        sections = [_table_section(self.table()), *_plots(self)] if self.rows else []
        if self.failures:
            sections.append(_failures_section(self.failures))
        if self.notes:
            sections.append(_notes_section(self.notes))
        return _PAGE.format(
            title=escape(f"elmore compare {self.task}"),
            style=_STYLE,
            finding=escape(_finding(self.rows)),
            sections="\n".join(sections),
            settings=escape(json.dumps(self.settings, indent=1, ensure_ascii=False)),
        )


def _row_values(row: Summary) -> dict[str, Any]:
    figures = {"measure": row.measure, "mean": row.mean, "spread": row.spread}
    return {**row.model_dump(mode="json"), **figures}


# The table ----------------------------------------------------------------------------------------


def _heading(rows: Sequence[Summary]) -> list[str]:
    figures = [rows[0].measure, "gain", *list(rows[0].scores)[1:]]
    return [
        "encoder", "examples", *figures, "seeds", "seconds", "trainable", "frozen", "s_0 … s_L (γ)",
    ]  # fmt: skip


def _cells(row: Summary, names: dict[str, str]) -> list[str]:
    others = [f"{fmean(found):.2f}" for found in list(row.scores.values())[1:]]
    sizes = (round(row.seconds), row.trainable, row.frozen)
    counts = ["unknown" if n is None else f"{n:,}" for n in sizes]
    figures = [_score(row), _gain(row, names), *others, _seeds(row)]
    return [names[row.encoder], f"{row.examples:,}", *figures, *counts, _mixes(row)]


def _score(row: Summary) -> str:
    return f"{row.mean:.2f}" + (f" ± {row.spread:.2f}" if row.spread is not None else "")


def _seeds(row: Summary) -> str:
    failed = f", {row.failed} failed" if row.failed else ""
    return f"{len(row.scores[row.measure])}{failed}"


def _gain(row: Summary, names: dict[str, str]) -> str:
    """With the seeds in which it holds; where there is none it says so in words."""
    if row.gain is None:
        return ""
    gain, over = row.gain, names[row.gain.over]
    verdict = "over" if gain.difference > 0 else "NOT above"
    return f"{gain.difference:+.2f} {verdict} {over} ({gain.seeds_above}/{gain.seeds})"


def _mixes(row: Summary) -> str:
    return "; ".join(f"{_name(mix)} {_weights(mix)}" for mix in mean_mixes(row))


def _name(mix: LearnedMix) -> str:
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


# The page -----------------------------------------------------------------------------------------


def _finding(rows: Sequence[Summary]) -> str:
    """What the table comes to, in a sentence."""
    if not rows:
        return "Nothing is finished yet."
    names = labels(row.encoder for row in rows)
    best = max(rows, key=lambda row: row.mean)
    gain = f", {_gain(best, names)}" if best.gain else ""
    return f"Best: {names[best.encoder]}, {best.measure} {_score(best)}{gain}."


def _table_section(table: list[list[str]]) -> str:
    """Without the last column: a plot shows the mixes."""
    head, *lines = (line[:-1] for line in table)
    heading = f"<thead><tr>{''.join(map(_th, head))}</tr></thead>"
    body = "".join(f"<tr>{''.join(map(_td, line))}</tr>" for line in lines)
    return (
        f'<section class="wide"><div class="scroll"><table>{heading}'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _th(cell: str) -> str:
    return f"<th>{escape(cell)}</th>"


def _td(cell: str) -> str:
    return f"<td>{escape(cell)}</td>"


def _plots(report: Report) -> list[str]:
    rows, measure = report.largest, report.rows[0].measure
    names = labels(row.encoder for row in report.rows)
    colours = {encoder: number % N_COLOURS for number, encoder in enumerate(names)}
    dots = [Row(names[row.encoder], colours[row.encoder], row.scores[row.measure]) for row in rows]
    found = [_figure("Score by encoder", _BY_ENCODER, points_by_encoder(dots, measure))]
    if bars := [bar for row in rows for bar in _bars(row, names, colours)]:
        found.append(_figure("Learned layer weights", _LAYER_WEIGHTS, layer_weights(bars)))
    if len({row.examples for row in report.rows}) > 1:
        lines = [_line(encoder, report.rows, names, colours) for encoder in names]
        drawn = score_against_size(lines, measure)
        found.append(_figure("Score against training size", _AGAINST_SIZE, drawn))
    return found


def _bars(row: Summary, names: dict[str, str], colours: dict[str, int]) -> list[Bars]:
    mixes = mean_mixes(row)
    alone = len({mix.source for mix in mixes}) == 1  # then its place is name enough
    return [
        Bars(
            f"{names[row.encoder]}, {mix.place if alone else _name(mix)}",
            f"γ {mix.gamma:.2f}",
            colours[row.encoder],
            tuple(seed[number].weights for seed in row.mixes),
        )
        for number, mix in enumerate(mixes)
    ]


def _line(
    encoder: str, rows: Sequence[Summary], names: dict[str, str], colours: dict[str, int]
) -> Line:
    own = sorted((row for row in rows if row.encoder == encoder), key=lambda row: row.examples)
    points = tuple((row.examples, row.scores[row.measure]) for row in own)
    return Line(names[encoder], colours[encoder], points)


def _figure(title: str, explained: str, drawing: str) -> str:
    return f"<section><h2>{title}</h2><p>{explained}</p>{drawing}</section>"


def _failures_section(failures: Sequence[Failed]) -> str:
    names = labels(f.trial.encoder for f in failures)
    items = "".join(
        f"<li>{escape(names[f.trial.encoder])}, {f.trial.fraction:g} of the examples, seed "
        f"{f.trial.seed}: <code>{escape(f.error)}</code></li>"
        for f in failures
    )
    return (
        '<section class="wide"><h2>Failed</h2><p>Run the same command again to try these once '
        f"more.</p><ul>{items}</ul></section>"
    )


def _notes_section(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<section class="wide"><h2>Notes</h2><ul>{items}</ul></section>'


_BY_ENCODER = "A point is a seed, the bar their mean, all trained on the largest size."
_LAYER_WEIGHTS = (
    "Softmax-normalised s_j of the mix γ Σ s_j h_j, layer 0 being the context-free one: bars are "
    "means, points seeds, and the dashes equal weights, where training begins."
)
_AGAINST_SIZE = "Lines join the means over seeds; the horizontal axis is logarithmic."

_LIGHT = "#2166ac #c2571a #1b7f4c #7d4fb0 #b8325a #80660f #0b7d86 #5f646b".split()
_DARK = "#6cb0f0 #f39a5f #5ecb93 #b898e8 #f27f9f #d5b64f #52c5cd #a4abb4".split()


def _colours(values: Sequence[str]) -> str:
    return "".join(f"--c{number}:{value};" for number, value in enumerate(values))


_STYLE = (
    ":root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1c1f23;--muted:#5b626b;"
    f"--rule:#dfe3e8;{_colours(_LIGHT)}}}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1d2125;--ink:#e9ebee;"
    f"--muted:#a2a9b2;--rule:#353b42;{_colours(_DARK)}}}}}\n"
    + "".join(f".f{n}{{fill:var(--c{n})}}.s{n}{{stroke:var(--c{n})}}\n" for n in range(N_COLOURS))
    + """*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem 1rem 3rem;max-width:1180px;background:var(--paper);
color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.05rem;margin:0 0 .2rem}
p{margin:0 0 .7rem;color:var(--muted);font-size:.92rem}p.finding{color:var(--ink);font-size:1.05rem}
main{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));
align-items:start}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:1rem;
min-width:0;overflow-wrap:anywhere}
.wide{grid-column:1/-1}.scroll{overflow-x:auto;overflow-wrap:normal}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.3rem .7rem;text-align:right;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--card)}
th{color:var(--muted);font-weight:600}
svg{display:block;width:100%;max-width:460px;height:auto;margin:0 auto}
svg text{font-size:14px;fill:var(--ink)}svg text.muted{font-size:12px;fill:var(--muted)}
svg text.strong{font-weight:600}svg line{stroke-width:1}
.grid,.track{stroke:var(--rule)}.mean{stroke-width:3!important}.curve{fill:none;stroke-width:2}
circle{fill-opacity:.75}.faint{fill-opacity:.35}.seed{fill:var(--ink)}
.equal{stroke:var(--ink);stroke-dasharray:3 3}
ul{padding-left:1.2rem}code,pre{font-size:.85rem;overflow-wrap:anywhere;white-space:pre-wrap}
"""
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="finding">{finding}</p>
<main>
{sections}
<section class="wide"><details><summary>Files and settings</summary><pre>{settings}</pre></details>
</section>
</main>
</body>
</html>
"""
