"""Small JSON files, also with comments and with commas before a closing bracket."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmore.errors import FormatError

_MAX_BYTES = 1 << 24
# A string that never closes runs to the end, so that no text is scanned twice.
_STRING = r'("(?:[^"\\]|\\.)*+"?)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|#[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


def read_json(path: Path, loads: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """The object in a small file, strict JSON unless `loads` is `loads_loose`."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise FormatError(f"{path}: over {_MAX_BYTES >> 20} MiB; expected a small JSON file.")
        found = loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: a JSON {type(found).__name__}; expected an object {{...}}.")
    return found


def loads_loose(text: str) -> Any:
    """Comments and last commas are dropped, except inside strings. Comments go first: one may
    stand between a comma and its bracket."""
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(lambda match: match[1] or " ", text)
    return json.loads(text)
