"""Uses as lines of a terminal: the word in the middle, and as much of its sentence as fits. Widths
are columns of the terminal: a Chinese character takes two.
"""

import re
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.text import Text

from elmore.errors import ConfigError

if TYPE_CHECKING:
    from elmore.search.vector_space import Layer
    from elmore.uses.use import Use

_CUT = "…"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # text from a corpus must not move the cursor


def line(use: "Use", width: int) -> Text:
    """`width` columns wide; the word is highlighted and always starts in the same column."""
    left_room = (width * 9) // 20
    left = _last(shown(use.words[: use.position]), left_room - 1)
    word = _first(shown([use.word]), width - left_room - 1)  # and a space
    right = _first(shown(use.words[use.position + 1 :]), width - left_room - cell_len(word) - 1)
    padding = " " * (left_room - 1 - cell_len(left))
    return Text.assemble(padding, left, " ", (word, "bold reverse"), " ", right)


def layer_of(value: str | None) -> "Layer | None":
    """meaning, mix, a number, or weights separated by commas; None: what the index has."""
    if value is None or value in ("mix", "meaning"):
        return cast("Layer | None", value)
    try:
        return int(value) if value.isdecimal() else [float(part) for part in value.split(",")]
    except ValueError:
        raise ConfigError(
            f"--layer is {value!r}; expected meaning, mix, a layer's number, or weights: "
            "0.2,0.5,0.3."
        ) from None


def shown(words: "tuple[str, ...] | list[str]") -> str:
    return _CONTROL.sub("·", " ".join(words).encode("utf-8", "replace").decode())


def _first(text: str, room: int) -> str:
    if cell_len(text) <= room:
        return text
    while text and cell_len(text) >= room:
        text = text[: min(len(text) - 1, room)]
    return text + _CUT if room > 0 else ""


def _last(text: str, room: int) -> str:
    return _first(text[::-1], room)[::-1]
