"""What a verb checks first, before it imports torch, which takes seconds: are the files there?"""

from collections.abc import Sequence
from pathlib import Path

from elmore.checkpoint.source_names import check_name
from elmore.errors import InputError
from elmore.files.text_file import STDIN, find_files


def check_files(
    *, model: str | None = None, text: str | None = None, corpus: Sequence[str] = ()
) -> None:
    """An error if a model cannot be there, or a text is not. `text` is read once, so it may also be
    standard input or a pipe; a `corpus` is read more than once."""
    if text is not None and text != STDIN:
        _refuse_empty(find_files([text], read_once=True))
    _refuse_empty(find_files(corpus))
    if model is not None:
        check_name(model)


def _refuse_empty(paths: list[Path]) -> None:
    """One rule for every command: a text of no bytes is a mistake."""
    if paths and all(path.is_file() and path.stat().st_size == 0 for path in paths):
        raise InputError(f"{paths[0]}: no sentence found; expected one per line.")
