"""JSON of a file, or of one line of it; errors name the place."""

import json
import re
from pathlib import Path
from typing import Any

from elmore.errors import InputError

_MAYBE_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str, path: str | Path, line: int | None = None) -> Any:
    """`line` is where the text stands in the file; None: it is the whole file."""
    where = str(path) if line is None else f"{path}, line {line}"
    try:
        found = json.loads(text)
        if _MAYBE_HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"{path}, line {line or error.lineno}, place {error.colno}"
        raise InputError(f"{place}: not JSON ({error.msg}).") from None
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
