"""The same picture drawn by matplotlib, at the same pixel positions."""

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
    Picture,
)
from elmore.errors import InputError
from elmore.files.atomic import atomic_file

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
        _draw(axes, picture)
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


def _draw(axes: "Axes", picture: Picture) -> None:
    _text(axes, picture.title, STATIC.left, 28, size=TITLE_SIZE, weight="bold")
    _panel(axes, STATIC, picture.static)
    _panel(axes, CONTEXT, picture.context)
    _mark(axes, *STATIC.middle, "o", GREY)
    for dot in picture.dots:
        _mark(axes, dot.x, dot.y, _MARKS[dot.sense], COLORS[dot.sense])
        side = "left" if dot.label.anchor == "start" else "right"
        _text(axes, dot.label.text, dot.label.x, dot.label.y, ha=side)
    for i, name in enumerate(picture.legend):
        _mark(axes, name.x - LEGEND_MARK, name.y, _MARKS[i], COLORS[i])
        _text(axes, name.text, name.x, name.y)


def _panel(axes: "Axes", box: Box, title: str) -> None:
    _text(axes, title, box.left, box.top - 14)
    corners = [box.left, box.right, box.right, box.left, box.left]
    axes.plot(corners, [box.top] * 2 + [box.bottom] * 2 + [box.top], color=_LINE, linewidth=0.8)


def _mark(axes: "Axes", x: float, y: float, shape: str, color: str) -> None:
    axes.plot([x], [y], shape, color=color, markersize=2 * DOT * _POINT, markeredgewidth=0)


def _text(axes: "Axes", text: str, x: float, y: float, size: float = TEXT_SIZE, **how: Any) -> None:
    axes.text(x, y, text, fontsize=size * _POINT, color=_INK, va="center_baseline", **how)
