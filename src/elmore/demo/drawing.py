"""The picture on paper: an HTML page with SVG, every sentence as text and nothing loaded from
elsewhere; or an image drawn by matplotlib at the same pixel positions.
"""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmore.demo.picture import (
    COLORS,
    CONTEXT,
    DOT,
    GREY,
    HEIGHT,
    LEGEND_MARK,
    STATIC,
    TEXT_SIZE,
    TITLE_SIZE,
    WIDTH,
    Box,
    Dot,
    Picture,
)
from elmore.errors import InputError
from elmore.files.atomic import atomic_file, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DPI = 200
_POINT = 72 / 100  # sizes are in pixels of a hundredth of an inch
_MARKS = "os^"
_INK, _LINE = "#1c1c1c", "#cccccc"
_FONTS = (
    "DejaVu Sans", "Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "PingFang SC",
    "Heiti SC", "Microsoft YaHei", "SimHei",
)  # fmt: skip
_STYLE = f"""
:root {{ color-scheme: light dark; --ink: #1c1c1c; --line: #cccccc; --paper: #ffffff; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8e8e8; --line: #4a4a4a; --paper: #161616; }}
}}
body {{ background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  max-width: {WIDTH}px; margin: 2em auto; padding: 0 1em; }}
figure {{ margin: 0; overflow-x: auto; }}
svg {{ width: 100%; min-width: 720px; height: auto; }}
svg text {{ fill: var(--ink); font: {TEXT_SIZE}px system-ui, sans-serif;
  dominant-baseline: central; }}
svg .title {{ font-size: {TITLE_SIZE}px; font-weight: 600; }}
svg .panel {{ fill: none; stroke: var(--line); }}
dt {{ font-weight: 600; margin-top: 1em; }}
dd {{ margin: 0; }}
"""


def write_html(picture: Picture, target: Path) -> None:
    write_text(target, html_page(picture))


def html_page(picture: Picture) -> str:
    title = escape(picture.title)
    return (
        '<!doctype html>\n<html><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f"<figure>{svg(picture)}</figure>\n{_sentences(picture)}\n</body></html>\n"
    )


def svg(picture: Picture) -> str:
    x, y = STATIC.middle
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(picture.title)}">',
        f'<text class="title" x="{STATIC.left}" y="28">{escape(picture.title)}</text>',
        *_panel(STATIC, picture.static),
        f'<circle cx="{x}" cy="{y}" r="{DOT}" fill="{GREY}"/>',
        *_panel(CONTEXT, picture.context),
        *(_dot(dot) for dot in picture.dots),
        *_legend(picture),
        "</svg>",
    ]
    return "\n".join(parts)


def _panel(box: Box, title: str) -> list[str]:
    size = f'width="{box.right - box.left}" height="{box.bottom - box.top}"'
    return [
        f'<text x="{box.left}" y="{box.top - 14}">{escape(title)}</text>',
        f'<rect class="panel" x="{box.left}" y="{box.top}" {size} rx="4"/>',
    ]


def _dot(dot: Dot) -> str:
    label, tip = dot.label, f"{dot.use.sense}: {dot.use.sentence}"
    at = f'x="{label.x:.1f}" y="{label.y:.1f}" text-anchor="{label.anchor}"'
    words = f"<text {at}>{escape(label.text)}</text>"
    return f"<g><title>{escape(tip)}</title>{_mark(dot.x, dot.y, dot.sense)}{words}</g>"


def _mark(x: float, y: float, sense: int) -> str:
    """A circle, a square, a triangle."""
    fill, r = f'fill="{COLORS[sense]}"', DOT
    match sense:
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {fill}/>'
        case 1:
            corner = f'x="{x - r:.1f}" y="{y - r:.1f}"'
            return f'<rect {corner} width="{2 * r}" height="{2 * r}" {fill}/>'
        case _:
            corners = f"{x:.1f},{y - r:.1f} {x - r:.1f},{y + r:.1f} {x + r:.1f},{y + r:.1f}"
            return f'<polygon points="{corners}" {fill}/>'


def _legend(picture: Picture) -> list[str]:
    parts = []
    for i, name in enumerate(picture.legend):
        text = f'<text x="{name.x:.1f}" y="{name.y}">{escape(name.text)}</text>'
        parts += [_mark(name.x - LEGEND_MARK, name.y, i), text]
    return parts


def _sentences(picture: Picture) -> str:
    """All sentences as text, for screens without a pointer and for screen readers."""
    parts = ["<dl>"]
    for i, name in enumerate(picture.legend):
        parts.append(f'<dt style="color:{COLORS[i]}">{escape(name.text)}</dt>')
        parts += [f"<dd>{escape(d.use.sentence)}</dd>" for d in picture.dots if d.sense == i]
    return "\n".join([*parts, "</dl>"])


# An image -----------------------------------------------------------------------------------------


def check_matplotlib() -> None:
    """An error before the work, not after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "A .png needs: pip install 'elmore[plot]'; a .html needs nothing."
        ) from None


def write_png(picture: Picture, target: Path) -> None:
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.family": _fonts(picture.title)}):
        figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=_DPI)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        axes.set_axis_off()
        _plot(axes, picture)
        with atomic_file(target) as path:
            figure.savefig(path, format="png")


def _fonts(text: str) -> list[str]:
    """The installed fonts; one of them must have the letters of `text`."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    fonts = [name for name in _FONTS if name in installed]
    if len(fonts) < 2 and any(letter > "\u2e7f" for letter in text):
        raise InputError(
            "A .png with Chinese text needs a Chinese font such as Noto Sans CJK SC, and none is "
            "installed; write a .html instead."
        )
    return fonts


def _plot(axes: "Axes", picture: Picture) -> None:
    _text(axes, picture.title, STATIC.left, 28, size=TITLE_SIZE, weight="bold")
    _plot_panel(axes, STATIC, picture.static)
    _plot_panel(axes, CONTEXT, picture.context)
    _plot_mark(axes, *STATIC.middle, "o", GREY)
    for dot in picture.dots:
        _plot_mark(axes, dot.x, dot.y, _MARKS[dot.sense], COLORS[dot.sense])
        side = "left" if dot.label.anchor == "start" else "right"
        _text(axes, dot.label.text, dot.label.x, dot.label.y, ha=side)
    for i, name in enumerate(picture.legend):
        _plot_mark(axes, name.x - LEGEND_MARK, name.y, _MARKS[i], COLORS[i])
        _text(axes, name.text, name.x, name.y)


def _plot_panel(axes: "Axes", box: Box, title: str) -> None:
    _text(axes, title, box.left, box.top - 14)
    corners = [box.left, box.right, box.right, box.left, box.left]
    axes.plot(corners, [box.top] * 2 + [box.bottom] * 2 + [box.top], color=_LINE, linewidth=0.8)


def _plot_mark(axes: "Axes", x: float, y: float, shape: str, color: str) -> None:
    axes.plot([x], [y], shape, color=color, markersize=2 * DOT * _POINT, markeredgewidth=0)


def _text(axes: "Axes", text: str, x: float, y: float, size: float = TEXT_SIZE, **how: Any) -> None:
    axes.text(x, y, text, fontsize=size * _POINT, color=_INK, va="center_baseline", **how)
