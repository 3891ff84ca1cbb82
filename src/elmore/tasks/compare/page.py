"""A comparison as one HTML page with plots: without network or scripts, in light and dark colors,
for desktops and phones.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from elmore.tasks.compare.plots import (
    N_COLORS,
    Look,
    layer_weights,
    points_by_encoder,
    score_against_size,
)
from elmore.tasks.compare.report import Report, Summary, gain, mean_and_spread
from elmore.tasks.compare.trials import labels
from elmore.tasks.html_page import html_page, theme


def page(report: Report) -> str:
    """One HTML file."""
    sections = [_table_section(report.table()), *_plots(report)] if report.rows else []
    if report.failures:
        sections.append(_list_section("Failed", _RETRY, _failures(report)))
    if report.notes:
        sections.append(_list_section("Notes", "", map(escape, report.notes)))
    body = _BODY.format(
        finding=escape(_finding(report.rows)),
        sections="\n".join(sections),
        settings=escape(json.dumps(report.settings, indent=1, ensure_ascii=False)),
    )
    return html_page(f"elmore compare {report.task}", _STYLE, body)


def _finding(rows: Sequence[Summary]) -> str:
    """The best row, in one sentence."""
    if not rows:
        return "Nothing is finished yet."
    names = labels(row.encoder for row in rows)
    best = max(rows, key=lambda row: row.mean)
    above = f", {gain(best, names)}" if best.gain else ""
    return f"Best: {names[best.encoder]}, {best.measure} {mean_and_spread(best)}{above}."


def _table_section(table: list[list[str]]) -> str:
    """Without the last column: a plot shows the mixes."""
    head, *lines = (line[:-1] for line in table)
    heading = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines
    )
    return (
        f'<section class="wide"><div class="scroll"><table><thead><tr>{heading}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _plots(report: Report) -> list[str]:
    names = labels(row.encoder for row in report.rows)
    looks = {
        encoder: Look(name, number % N_COLORS)
        for number, (encoder, name) in enumerate(names.items())
    }
    most = max(row.fraction for row in report.rows)
    rows = [row for row in report.rows if row.fraction == most]
    found = [_figure("Score by encoder", _BY_ENCODER, points_by_encoder(rows, looks))]
    if any(seed for row in rows for seed in row.mixes):
        found.append(_figure("Learned layer weights", _LAYER_WEIGHTS, layer_weights(rows, looks)))
    if len({row.examples for row in report.rows}) > 1:
        drawn = score_against_size(report.rows, looks)
        found.append(_figure("Score against training size", _AGAINST_SIZE, drawn))
    return found


def _figure(title: str, explained: str, drawing: str) -> str:
    return f"<section><h2>{title}</h2><p>{explained}</p>{drawing}</section>"


def _failures(report: Report) -> Iterator[str]:
    names = labels(f.trial.encoder for f in report.failures)
    for f in report.failures:
        where = f"{names[f.trial.encoder]}, {f.trial.fraction:g} of the examples, seed"
        yield f"{escape(where)} {f.trial.seed}: <code>{escape(f.error)}</code>"


def _list_section(title: str, explained: str, items: Iterable[str]) -> str:
    listed = "".join(f"<li>{item}</li>" for item in items)
    return f'<section class="wide"><h2>{title}</h2>{explained}<ul>{listed}</ul></section>'


_RETRY = "<p>Run the same command again to try these once more.</p>"
_BY_ENCODER = "Points are seeds, bars are means, all trained on the largest size."
_LAYER_WEIGHTS = (
    "Softmax-normalized s_j of the mix γ Σ s_j h_j. Bars are means, points are seeds, and the "
    "dashes are equal weights, where training begins."
)
_AGAINST_SIZE = "Lines join the means over seeds; the horizontal axis is logarithmic."

_LIGHT = "#2166ac #c2571a #1b7f4c #7d4fb0 #b8325a #80660f #0b7d86 #5f646b".split()
_DARK = "#6cb0f0 #f39a5f #5ecb93 #b898e8 #f27f9f #d5b64f #52c5cd #a4abb4".split()


_STYLE = (
    theme(_LIGHT, _DARK)
    + "".join(f".f{n}{{fill:var(--c{n})}}.s{n}{{stroke:var(--c{n})}}\n" for n in range(N_COLORS))
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

_BODY = """<p class="finding">{finding}</p>
<main>
{sections}
<section class="wide"><details><summary>Files and settings</summary><pre>{settings}</pre></details>
</section>
</main>
"""
