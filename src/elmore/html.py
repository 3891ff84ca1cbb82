"""Small tables for notebooks, where an answer shows itself as HTML. Everything is escaped."""

from collections.abc import Iterable
from html import escape

_STYLE = "padding:2px 6px;text-align:left"


def html_cell(text: object, *, head: bool = False, style: str = "") -> str:
    tag = "th" if head else "td"
    return f'<{tag} style="{_STYLE};{style}">{escape(str(text))}</{tag}>'


def heat_cell(value: float) -> str:
    """A number from -1 to 1, the warmer the higher; readable on light and dark pages."""
    share = min(1.0, max(0.0, value))
    return html_cell(f"{value:.2f}", style=f"background:rgba(230,126,34,{share:.2f})")


def marked_words(words: Iterable[str], position: int) -> str:
    """A sentence with one word in bold."""
    shown = (f"<b>{escape(w)}</b>" if i == position else escape(w) for i, w in enumerate(words))
    return f'<td style="{_STYLE}">{" ".join(shown)}</td>'


def html_table(rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """Rows of cells that are HTML already."""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    above = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{above}{body}</table>"
