"""Three plots as SVG text: a point for each seed, bars of layer weights, lines over training size.

Drawn narrow, so that a phone shows them at their own size. Colors are classes that the page
defines (`f0` fills, `s0` strokes, …), so one drawing serves light and dark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from elmore.tasks.compare.report import Summary, mean_mixes, mix_name

WIDTH = 360
N_COLORS = 8  # encoders beyond that share colors again
_LEFT, _RIGHT = 6, WIDTH - 6  # where names begin and figures end
_BARS = 64  # where bars begin, right of the layers' names
_TEXT, _SMALL = 14, 12  # font sizes, as in the page's style sheet
_CHARACTER = 0.56  # width of an average character, as a share of its font size


class Look(NamedTuple):
    """An encoder's name and the number of its color, the same in all plots."""

    name: str
    color: int


Looks = dict[str, Look]  # by encoder


@dataclass(frozen=True, slots=True)
class _Axis:
    """From numbers to positions; logarithmic if asked."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.start + share * (self.end - self.start)


def points_by_encoder(rows: Sequence[Summary], looks: Looks) -> str:
    """One line of points per encoder, one point per seed; the bar is their mean."""
    top, step = 6, 48
    bottom, measure = top + step * len(rows), rows[0].measure
    axis = _padded([s for row in rows for s in row.seeds], _LEFT + 6, _RIGHT - 6)
    drawn = [_grid(axis, top, bottom)]
    for number, row in enumerate(rows):
        y, mean, (name, color) = top + step * number, row.mean, looks[row.encoder]
        drawn += [
            _text(_LEFT, y + 16, name, f"f{color} strong"),
            _text(_RIGHT, y + 16, f"{mean:.2f}", "strong", "end"),
            _line(_LEFT, y + 33, _RIGHT, y + 33, "track"),
        ]
        drawn += [_point(axis(s), y + 33, 5, f"f{color}", f"{s:.2f}") for s in row.seeds]
        drawn.append(_line(axis(mean), y + 24, axis(mean), y + 42, f"mean s{color}"))
    drawn.append(_text(WIDTH / 2, bottom + 38, measure, "muted", "middle"))
    return _svg(drawn, bottom + 46, f"{measure} of every seed, by encoder")


def layer_weights(rows: Sequence[Summary], looks: Looks) -> str:
    """One bar per layer, the mean over seeds; points are the seeds, the dashes equal weights."""
    weights = [w for row in rows for seed in row.mixes for mix in seed for w in mix.weights]
    axis = _Axis(0.0, max(0.4, *weights), _BARS, _RIGHT - 50)
    drawn, y = [], 0.0
    mixes = [(row, number, mix) for row in rows for number, mix in enumerate(mean_mixes(row))]
    for row, number, mix in mixes:
        name, color = looks[row.encoder]
        only = len({own.source for own in row.mixes[0]}) == 1  # then the place is enough
        label = f"{name}, {mix.place if only else mix_name(mix)}"
        drawn.append(_text(_LEFT, y + 18, label, f"f{color} strong"))
        drawn.append(_text(_RIGHT, y + 18, f"γ {mix.gamma:.2f}", "strong", "end"))
        for layer, mean in enumerate(mix.weights):
            place = y + 26 + 24 * layer
            drawn += [
                _text(_LEFT, place + 14, f"layer {layer}", "muted"),
                _bar(_BARS, place + 2, axis(mean), color, f"{mean:.3f}"),
                _text(_RIGHT, place + 14, f"{mean:.3f}", "", "end"),
            ]
            seeds = [seed[number].weights[layer] for seed in row.mixes]
            drawn += [_point(axis(s), place + 10, 2.5, "seed", f"{s:.3f}") for s in seeds]
        equal, end = axis(1 / len(mix.weights)), y + 26 + 24 * len(mix.weights)
        drawn.append(_line(equal, y + 24, equal, end, "equal"))
        y = end + 10
    return _svg(drawn, y, "learned weight of every layer")


def score_against_size(rows: Sequence[Summary], looks: Looks) -> str:
    """Means joined by lines over a logarithmic axis, the seeds as points around them."""
    top, measure = 18 + 22 * len(looks), rows[0].measure
    bottom = top + 230
    rows = sorted(rows, key=lambda row: row.examples)
    across = _Axis(rows[0].examples, rows[-1].examples, 58, _RIGHT - 16, log=True)
    up = _padded([s for row in rows for s in row.seeds], bottom - 8, top + 8)
    drawn = [_levels(up), *_sizes(across, [row.examples for row in rows], bottom)]
    for number, (encoder, look) in enumerate(looks.items()):
        y = 18 + 22 * number
        drawn.append(f'<circle cx="16" cy="{y - 4}" r="5" class="f{look.color}"/>')
        drawn.append(_text(28, y, look.name, "strong"))
        drawn += _curve([row for row in rows if row.encoder == encoder], look.color, across, up)
    drawn.append(_text(_LEFT, top + 4, measure, "muted"))
    drawn.append(_text(WIDTH / 2, bottom + 36, "training examples", "muted", "middle"))
    return _svg(drawn, bottom + 44, f"{measure} against the number of training examples")


def _curve(rows: Sequence[Summary], color: int, across: _Axis, up: _Axis) -> list[str]:
    places = " ".join(f"{across(row.examples):.1f},{up(row.mean):.1f}" for row in rows)
    drawn = [f'<polyline points="{places}" class="curve s{color}"/>']
    for row in rows:
        x, of = across(row.examples), f"{row.examples:,} examples"
        drawn += [_point(x, up(s), 3.5, f"f{color} faint", f"{of}: {s:.2f}") for s in row.seeds]
    for row in rows:
        title = f"{row.examples:,} examples, mean: {row.mean:.2f}"
        drawn.append(_point(across(row.examples), up(row.mean), 5, f"f{color}", title))
    return drawn


def _grid(axis: _Axis, top: float, bottom: float) -> str:
    """Vertical lines at round numbers, with the numbers below."""
    return "".join(
        _line(axis(tick), top, axis(tick), bottom, "grid")
        + _text(axis(tick), bottom + 18, shown, "muted", "middle")
        for tick, shown in _ticks(axis.low, axis.high)
    )


def _levels(axis: _Axis) -> str:
    """Horizontal lines at round numbers, with the numbers on the left."""
    return "".join(
        _line(48, axis(tick), _RIGHT, axis(tick), "grid")
        + _text(42, axis(tick) + 4, shown, "muted", "end")
        for tick, shown in _ticks(axis.low, axis.high)
    )


def _sizes(axis: _Axis, sizes: Sequence[int], bottom: float) -> list[str]:
    """The training sizes; a number that would touch the one before is left out."""
    drawn, free = [], -math.inf
    for size in dict.fromkeys(sizes):
        x, half = axis(size), len(f"{size:,}") * _SMALL * _CHARACTER / 2
        if x - half > free:
            drawn.append(_text(min(x, WIDTH - half), bottom + 16, f"{size:,}", "muted", "middle"))
            free = x + half + 6
    return drawn


def _padded(values: Sequence[float], start: float, end: float) -> _Axis:
    """An axis with room at both ends; equal values stand in its middle."""
    low, high = min(values), max(values)
    room = 0.08 * (high - low) if high - low > 1e-6 else 0.5
    return _Axis(low - room, high + room, start, end)


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Three to six round numbers between the ends, and how they are written."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    digits = max(0, -math.floor(math.log10(step)) + (step / power == 2.5))
    first = math.ceil(low / step)
    values = [step * n for n in range(first, math.floor(high / step) + 1)]
    return [(value, f"{value:.{digits}f}") for value in values]


def _svg(drawn: Sequence[str], height: float, title: str) -> str:
    body = "\n".join(drawn)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">\n'
        f"{body}\n</svg>"
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    """Cut to the width of the drawing; the whole text is in its title."""
    size = _SMALL if kind == "muted" else _TEXT
    most = int((WIDTH - 60 if anchor == "start" else WIDTH) / (size * _CHARACTER))
    shown = text if len(text) <= most else text[: most - 1] + "…"
    title = f"<title>{escape(text)}</title>" if shown != text else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">'
        f"{title}{escape(shown)}</text>"
    )


def _bar(x: float, y: float, end: float, color: int, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{end - x:.1f}" height="16" rx="2" '
        f'class="f{color}"><title>{escape(title)}</title></rect>'
    )


def _line(x: float, y: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _point(x: float, y: float, r: float, kind: str, title: str) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" class="{kind}">'
        f"<title>{escape(title)}</title></circle>"
    )
