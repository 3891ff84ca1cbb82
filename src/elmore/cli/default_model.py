"""The model where none is named: the included one for the language of the text, and it is said."""

import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from elmore.checkpoint.source_names import shipped_names
from elmore.errors import InputError
from elmore.files.text_file import STDIN, read_lines

_LINES, _CHARACTERS = 200, 100_000  # of each file that are looked at
_LANGUAGES = {"en": "English", "zh": "Chinese"}


def model_for(asked: str | None, paths: Sequence[Path], *, quiet: bool) -> str:
    """`asked`, or an included model that can read the text."""
    if asked is not None:
        return asked
    language = language_of(paths)
    name = f"small-{language}"
    if name not in shipped_names():
        text = _LANGUAGES.get(language or "", "neither English nor Chinese")
        raise InputError(
            f"The text looks {text}, and no model for it is included ({', '.join(shipped_names())} "
            "is). Name one: --model SOURCE."
        )
    if not quiet:
        told = f"model {name}, the included one for {_LANGUAGES[language or 'en']} text"
        print(f"elmore: {told}; --model chooses another.", file=sys.stderr, flush=True)
    return name


def language_of(paths: Sequence[Path]) -> str | None:
    """en where letters are Latin, zh where they are Chinese characters, None for other scripts.
    Standard input is not looked at, as it can be read only once."""
    letters = [
        character
        for path in paths
        if str(path) != STDIN and Path(path).is_file()
        for character in islice(chain.from_iterable(_first_lines(path)), _CHARACTERS)
        if character.isalpha()
    ]
    if not letters:
        return "en"
    kana = sum("\u3040" <= c <= "\u30ff" for c in letters)
    chinese = sum("\u4e00" <= c <= "\u9fff" or "\u3400" <= c <= "\u4dbf" for c in letters)
    latin = sum(c < "\u0250" for c in letters)
    if latin >= len(letters) / 2:
        return "en"
    return "zh" if chinese > len(letters) / 4 and not kana > len(letters) / 20 else None


def _first_lines(path: Path) -> Iterator[str]:
    return islice(read_lines(path, errors="replace"), _LINES)
