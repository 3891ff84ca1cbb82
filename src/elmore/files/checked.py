"""Manifests that detect damage: JSON that contains a checksum of its other fields."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from elmore.config import valid
from elmore.errors import FormatError
from elmore.files.atomic import write_text
from elmore.small_files import read_small

_CHECKSUM = "checksum"
_MAX_BYTES = 1 << 28
_Manifest = TypeVar("_Manifest", bound=BaseModel)


def write_checked(path: Path, manifest: BaseModel) -> None:
    write_text(path, with_checksum(manifest))


def with_checksum(manifest: BaseModel) -> str:
    content = manifest.model_dump(mode="json")
    return json.dumps({_CHECKSUM: _checksum(content), **content}, indent=1) + "\n"


def read_settings(path: Path, kind: type[_Manifest], *, remedy: str) -> _Manifest:
    """JSON with a checksum, or without one if an earlier version of elmore has written it."""
    try:
        whole: Any = json.loads(read_small(path, _MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON ({error!s:.80}); {remedy}.") from None
    given = whole.pop(_CHECKSUM, None) if isinstance(whole, dict) else None
    if given is not None and given != _checksum(whole):
        raise _damaged(path, remedy)
    with valid(path):
        return kind.model_validate(whole)


def read_checked(
    path: Path,
    kind: type[_Manifest],
    version: int,
    *,
    called: str,
    remedy: str,
    oldest: int | None = None,
) -> _Manifest:
    """Of this version, or of an earlier one back to `oldest`. For errors, `called` is what a folder
    with this file is, and `remedy` says what to do if the file is damaged."""
    damaged = _damaged(path, remedy)
    try:
        whole: Any = json.loads(read_small(path, _MAX_BYTES))
    except FormatError:
        if path.is_symlink() or path.exists():
            raise
        raise FormatError(f"{path.parent}: not {called}, it has no {path.name}.") from None
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(whole, dict) or not isinstance(whole.get("version"), int):
        raise damaged
    found = whole["version"]
    if not (version if oldest is None else oldest) <= found <= version:
        what_to_do = "update elmore" if found > version else "make it again with this one"
        raise FormatError(
            f"{path}: version {found}, but this elmore reads version {version}; {what_to_do}."
        )
    if whole.pop(_CHECKSUM, None) != _checksum(whole):
        raise damaged
    try:
        return kind.model_validate(whole)
    except ValidationError:
        raise damaged from None


def _damaged(path: Path, remedy: str) -> FormatError:
    return FormatError(f"{path}: damaged, its checksum does not match; {remedy}.")


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
