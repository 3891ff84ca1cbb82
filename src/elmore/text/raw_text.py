"""Whether text whose words should be separated by spaces is raw text instead: its marks are glued
to words, or its Chinese and Japanese have no spaces.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from elmore.text.tokenize import ABBREVIATIONS, AMBIGUOUS, HAN, HIRAGANA, KATAKANA

_UNSPACED = f"{HAN}{HIRAGANA}{KATAKANA}"
_CLOSE = "[\"'”’»›)\\]」』）》]*+"
_GLUED = re.compile(
    rf"[^\W_]{_CLOSE}[,;!?،؛؟।۔]{_CLOSE}(?!\S)|[{_UNSPACED}]{_CLOSE}[，。！？；：、]"
)
# A period alone says little ("corp.", "3."), so it counts only at the end of a line.
_LAST_PERIOD = re.compile(rf"(\S*[^\W\d_]){_CLOSE}\.{_CLOSE}")
_ALONE = re.compile(r"(?<!\S)[.,;:!?…،؛؟।۔，。！？；：、]+(?!\S)")
_LONG_RUN = re.compile(rf"[{_UNSPACED}]{{9,}}")  # words this long are rare

_EVIDENT_MARKS = 12
_EVIDENT_CHARACTERS = 100
_LEAST = 0.02  # glued marks per word; prose has 0.1 and more


class Raw(Enum):
    """How sure it is that a text is raw."""

    NO = "no"
    LIKELY = "likely"
    EVIDENT = "evident"


class Judgment(NamedTuple):
    """And an example of what is not a word."""

    raw: Raw
    example: str = ""


def judge(lines: Iterable[str]) -> Judgment:
    """Of the first lines of a text. A few glued marks are not enough to be sure."""
    glued = alone = words = characters = in_runs = 0
    example = ""
    for line in lines:
        ends = [match.end() for match in [*_GLUED.finditer(line), *_LONG_RUN.finditer(line)]]
        ends += [len(line)] if _ends_in_glued_period(line) else []
        if ends and not example:
            example = line[: ends[0]].split()[-1][-20:]
        n_runs = [len(run) for run in _LONG_RUN.findall(line)]
        glued, alone = glued + len(ends) - len(n_runs), alone + len(_ALONE.findall(line))
        words, characters = words + len(line.split()), characters + len(line)
        in_runs += sum(n_runs)
    unspaced = 5 * in_runs >= characters > 0
    marked = glued > alone and glued >= _LEAST * words
    evident = marked and glued >= max(_EVIDENT_MARKS, 4 * alone)
    if evident or (unspaced and in_runs >= _EVIDENT_CHARACTERS):
        return Judgment(Raw.EVIDENT, example)
    return Judgment(Raw.LIKELY, example) if marked or unspaced else Judgment(Raw.NO)


def _ends_in_glued_period(line: str) -> bool:
    """Whether the last word has the sentence's period, not its own: "corp.", "J.", "u.s."."""
    found = _LAST_PERIOD.fullmatch((line.rsplit(maxsplit=1) or [""])[-1][-50:])
    if found is None or len(found[1]) == 1 or "." in found[1]:
        return False
    return found[1] not in ABBREVIATIONS and found[1] not in AMBIGUOUS
