"""What the readers share: lines with their place, JSON, and answers in a file beside the data."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.files.text_file import COMPRESSED, read_lines

_MAYBE_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def placed_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """Every line that is not blank, and its place as errors name it: `FILE, line 3`."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}, line {number}", line


def parse_json(text: str, where: str, *, whole_file: bool = False) -> Any:
    """The JSON of one line, or of a whole file; errors name the place."""
    try:
        found = json.loads(text)
        if _MAYBE_HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if whole_file else ""
        raise InputError(f"{where}{line}, place {error.colno}: not JSON ({error.msg}).") from None
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: half a surrogate pair (\\ud800 to \\udfff alone), which is not a character; "
            "correct or remove it."
        ) from None
    except RecursionError:
        raise InputError(f"{where}: JSON nested too deep.") from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{where}: JSON that cannot be read ({error}).") from None
    return found


def gold_beside(path: str | Path, data: str, gold: str) -> Path:
    """The answers `X{gold}` for the data `X{data}`; either file may be compressed."""
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
