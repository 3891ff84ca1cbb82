"""Tables as Markdown."""

from collections.abc import Sequence


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Aligned, so that it is readable as plain text; the first column left, the others right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    text = ""
    for first, *others in (table[0], rule, *table[1:]):
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        text += f"| {' | '.join([first.ljust(widths[0]), *right])} |\n"
    return text
