"""Answers in a file of their own, beside the data."""

from pathlib import Path

from elmore.errors import InputError
from elmore.files.text_file import COMPRESSED


def gold_beside(path: str | Path, data: str, gold: str) -> Path:
    """`X{gold}` for `X{data}`; either file may be compressed."""
    folder = Path(path).parent
    name, ending, _ = Path(path).name.partition(data)
    if not ending:
        raise InputError(f"{path}: expected a file whose name ends in {data}, with {gold} beside.")
    if not Path(path).exists():
        raise InputError(f"{path}: no such file.")
    for packed in ("", *COMPRESSED):
        if (found := folder / f"{name}{gold}{packed}").exists():
            return found
    raise InputError(f"{path}: its answers, {name}{gold}, are not beside it; put them there.")
