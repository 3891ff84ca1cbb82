"""The frame of every page that tasks write: without network or scripts, in light and dark colors,
for desktops and phones.
"""

from collections.abc import Sequence
from html import escape


def html_page(title: str, style: str, body: str) -> str:
    """One HTML file; `body` comes after the heading."""
    return _PAGE.format(title=escape(title), style=style, body=body)


def theme(light: Sequence[str], dark: Sequence[str]) -> str:
    """Paper, card, ink, muted ink and rule, and the colors --c0, --c1 … as given."""
    return (
        ":root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1c1f23;--muted:#5b626b;"
        f"--rule:#dfe3e8;{_colors(light)}}}\n"
        "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1d2125;--ink:#e9ebee;"
        f"--muted:#a2a9b2;--rule:#353b42;{_colors(dark)}}}}}\n"
    )


def _colors(values: Sequence[str]) -> str:
    return "".join(f"--c{number}:{value};" for number, value in enumerate(values))


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
{body}</body>
</html>
"""
