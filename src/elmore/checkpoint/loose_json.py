"""Small JSON files, also with comments and with commas before a closing bracket."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmore.errors import FormatError
from elmore.small_files import read_small

_MAX_DEPTH = 100
# A string that never closes runs to the end, so that no text is scanned twice.
_STRING = r'("(?:[^"\\]|\\.)*+"?)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|#[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


def read_json(path: Path, loads: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """The object in a small file, strict JSON unless `loads` is `loads_loose`."""
    content = read_small(path)
    try:
        found = loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: a JSON {type(found).__name__}; expected an object {{...}}.")
    _check_depth(path, found)
    return found


def _check_depth(path: Path, found: Any) -> None:
    """Whoever walks through it may do so by recursion."""
    level = [found]
    for _ in range(_MAX_DEPTH):
        lists = [
            p.values() if isinstance(p, dict) else p for p in level if isinstance(p, dict | list)
        ]
        level = [part for parts in lists for part in parts]
        if not level:
            return
    raise FormatError(f"{path}: not JSON of a model: nested over {_MAX_DEPTH} levels deep.")


def loads_loose(text: str) -> Any:
    """Comments and last commas are dropped, except inside strings. Comments go first: one may
    stand between a comma and its bracket."""
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(lambda match: match[1] or " ", text)
    return json.loads(text)
