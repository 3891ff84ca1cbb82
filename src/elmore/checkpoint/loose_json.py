"""JSON as people write it: with comments and with commas before a closing bracket."""

import json
import re
from pathlib import Path
from typing import Any

from elmore.errors import FormatError

_MAX_BYTES = 1 << 24
# A string that never closes runs to the end, so that no text is scanned twice.
_STRING = r'("(?:[^"\\]|\\.)*+"?)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|#[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


def read_loose_json(path: Path) -> dict[str, Any]:
    """The object a file holds; strings keep what looks like comments in them."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise FormatError(f"{path}: over {_MAX_BYTES >> 20} MiB; expected a small JSON config.")
        found = loads_loose(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: a JSON {type(found).__name__}; expected an object {{...}}.")
    return found


def loads_loose(text: str) -> Any:
    """Comments go first, because one may stand between a comma and its bracket."""
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(lambda match: match[1] or " ", text)
    return json.loads(text)
