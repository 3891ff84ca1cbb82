"""Where a decoder looked, as a picture: a row per piece written, a column per source piece."""

from collections.abc import Sequence
from html import escape

_CELL, _LEFT, _TOP = 24, 130, 120
_INK = "#1a5fb4"


def attention_svg(
    source: Sequence[str], written: Sequence[str], attention: Sequence[Sequence[float]]
) -> str:
    """The darker a square, the more weight its source piece had when its row was written."""
    width, height = _LEFT + _CELL * len(source) + 10, _TOP + _CELL * len(written) + 10
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        "<title>Attention to the source, one row per piece written</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, piece in enumerate(source):
        x = _LEFT + _CELL * (i + 0.65)
        parts.append(
            f'<text transform="translate({x:.0f} {_TOP - 8}) rotate(-60)">{escape(piece)}</text>'
        )
    for t, (piece, weights) in enumerate(zip(written, attention, strict=True)):
        y = _TOP + _CELL * t
        label = f'<text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end">{escape(piece)}</text>'
        parts.append(label)
        for i, weight in enumerate(weights):
            parts.append(
                f'<rect x="{_LEFT + _CELL * i}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}" '
                f'fill="{_INK}" fill-opacity="{weight:.3f}" stroke="#dddddd"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"
