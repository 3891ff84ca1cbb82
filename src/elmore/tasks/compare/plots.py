"""Three plots as SVG text: a point for each seed, bars of layer weights, lines over training size.

Drawn narrow, so that a phone shows them at their own size. Colors are classes that the page
defines (`f0` fills, `s0` strokes, …): one drawing serves light and dark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

WIDTH = 360
N_COLORS = 8  # encoders beyond that share colors again
_LEFT, _RIGHT = 6, WIDTH - 6  # where names begin and figures end
_BARS = 64  # where bars begin, right of the layers' names
_TEXT, _SMALL = 14, 12  # font sizes, as the page's style sheet has them
_CHARACTER = 0.56  # width of an average character, of its font size


@dataclass(frozen=True, slots=True)
class Row:
    """One encoder's scores: a point for each seed."""

    label: str
    color: int
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """One learned mix: s_j of every layer, for each seed; `note` stands beside its name."""

    label: str
    note: str
    color: int
    weights: tuple[tuple[float, ...], ...]  # [seed][layer]


@dataclass(frozen=True, slots=True)
class Line:
    """One encoder's scores at each training size: (examples, a score for each seed)."""

    label: str
    color: int
    points: tuple[tuple[int, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """From numbers to places; logarithmic if asked."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (
            (math.log(v) for v in (self.low, self.high, value))
            if self.log
            else (self.low, self.high, value)
        )
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.start + share * (self.end - self.start)


def points_by_encoder(rows: Sequence[Row], measure: str) -> str:
    """A line of points for each encoder; the bar is their mean."""
    top, step = 6, 48
    bottom = top + step * len(rows)
    axis = _padded([s for row in rows for s in row.scores], _LEFT + 6, _RIGHT - 6)
    drawn = [_grid(axis, top, bottom)]
    for number, row in enumerate(rows):
        y, mean = top + step * number, fmean(row.scores)
        drawn += [
            _text(_LEFT, y + 16, row.label, f"f{row.color} strong"),
            _text(_RIGHT, y + 16, f"{mean:.2f}", "strong", "end"),
            _line(_LEFT, y + 33, _RIGHT, y + 33, "track"),
        ]
        drawn += [_point(axis(s), y + 33, 5, row.color, f"{s:.2f}") for s in row.scores]
        drawn.append(_line(axis(mean), y + 24, axis(mean), y + 42, f"mean s{row.color}"))
    drawn.append(_text(WIDTH / 2, bottom + 38, measure, "muted", "middle"))
    return _svg(drawn, bottom + 46, f"{measure} of every seed, by encoder")


def layer_weights(mixes: Sequence[Bars]) -> str:
    """A bar for each layer, the mean over seeds; points are the seeds, the dashes equal weights."""
    axis = _Axis(
        0.0, max(0.4, *(w for mix in mixes for s in mix.weights for w in s)), _BARS, _RIGHT - 50
    )
    drawn, y = [], 0.0
    for mix in mixes:
        drawn.append(_text(_LEFT, y + 18, mix.label, f"f{mix.color} strong"))
        drawn.append(_text(_RIGHT, y + 18, mix.note, "strong", "end"))
        layers = list(zip(*mix.weights, strict=True))
        for number, seeds in enumerate(layers):
            place, mean = y + 26 + 24 * number, fmean(seeds)
            drawn += [
                _text(_LEFT, place + 14, f"layer {number}", "muted"),
                _bar(_BARS, place + 2, axis(mean), mix.color, f"{mean:.3f}"),
                _text(_RIGHT, place + 14, f"{mean:.3f}", "", "end"),
            ]
            drawn += [_point(axis(s), place + 10, 2.5, -1, f"{s:.3f}") for s in seeds]
        equal, end = axis(1 / len(layers)), y + 26 + 24 * len(layers)
        drawn.append(_line(equal, y + 24, equal, end, "equal"))
        y = end + 10
    return _svg(drawn, y, "learned weight of every layer")


def score_against_size(lines: Sequence[Line], measure: str) -> str:
    """Means joined by lines over a logarithmic axis, the seeds as points around them."""
    top = 18 + 22 * len(lines)
    bottom = top + 230
    sizes = sorted({size for line in lines for size, _ in line.points})
    scores = [s for line in lines for _, found in line.points for s in found]
    across = _Axis(sizes[0], sizes[-1], 58, _RIGHT - 16, log=True)
    up = _padded(scores, bottom - 8, top + 8)
    drawn = [_levels(up), *(_sizes(across, sizes, bottom))]
    for number, line in enumerate(lines):
        y = 18 + 22 * number
        drawn.append(f'<circle cx="16" cy="{y - 4}" r="5" class="f{line.color}"/>')
        drawn.append(_text(28, y, line.label, "strong"))
        drawn += _curve(line, across, up)
    drawn.append(_text(_LEFT, top + 4, measure, "muted"))
    drawn.append(_text(WIDTH / 2, bottom + 36, "training examples", "muted", "middle"))
    return _svg(drawn, bottom + 44, f"{measure} against the number of training examples")


def _curve(line: Line, across: _Axis, up: _Axis) -> list[str]:
    means = [(across(size), up(fmean(found))) for size, found in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in means)
    drawn = [f'<polyline points="{path}" class="curve s{line.color}"/>']
    for size, found in line.points:
        title = f"{size:,} examples: "
        drawn += [
            _point(across(size), up(s), 3.5, line.color, f"{title}{s:.2f}", faint=True)
            for s in found
        ]
    for (x, y), (size, found) in zip(means, line.points, strict=True):
        drawn.append(_point(x, y, 5, line.color, f"{size:,} examples, mean: {fmean(found):.2f}"))
    return drawn


def _grid(axis: _Axis, top: float, bottom: float) -> str:
    """Upright lines at round numbers, which stand below them."""
    return "".join(
        _line(axis(tick), top, axis(tick), bottom, "grid")
        + _text(axis(tick), bottom + 18, shown, "muted", "middle")
        for tick, shown in _ticks(axis.low, axis.high)
    )


def _levels(axis: _Axis) -> str:
    """Level lines at round numbers, which stand left of them."""
    return "".join(
        _line(48, axis(tick), _RIGHT, axis(tick), "grid")
        + _text(42, axis(tick) + 4, shown, "muted", "end")
        for tick, shown in _ticks(axis.low, axis.high)
    )


def _sizes(axis: _Axis, sizes: list[int], bottom: float) -> list[str]:
    """The sizes that were trained on; a number that would touch the one before is left out."""
    drawn, free = [], -math.inf
    for size in sizes:
        x, half = axis(size), len(f"{size:,}") * _SMALL * _CHARACTER / 2
        if x - half > free:
            drawn.append(_text(min(x, WIDTH - half), bottom + 16, f"{size:,}", "muted", "middle"))
            free = x + half + 6
    return drawn


def _padded(values: Sequence[float], start: float, end: float) -> _Axis:
    """An axis with room at both ends; equal values stand in its middle."""
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.5
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
    """Cut to what the drawing is wide; the whole stands in its title."""
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


def _point(x: float, y: float, r: float, color: int, title: str, faint: bool = False) -> str:
    kind = ("seed" if color < 0 else f"f{color}") + (" faint" if faint else "")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" class="{kind}">'
        f"<title>{escape(title)}</title></circle>"
    )
