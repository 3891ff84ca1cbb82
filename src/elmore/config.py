"""The base of every config, `--set` overrides, and validation errors as one line."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from elmore.errors import ConfigError, FormatError
from elmore.small_files import read_small

Config = TypeVar("Config", bound=BaseModel)
_MAX_JSON = 1 << 26  # labels and vocabularies of a task included


class Frozen(BaseModel):
    """A config: it never changes, and an unknown setting is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Foreign(BaseModel):
    """A section of a file that another program wrote: strict types, other keys are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


def one_line(error: ValidationError) -> str:
    """A pydantic report as one line: where, what is wrong, what was given."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    given = "" if isinstance(first.get("input"), dict) else f" (found {first.get('input')!r:.80})"
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}{given}" if where else message


@contextmanager
def valid(where: object) -> Iterator[None]:
    """Report what is wrong in a file in one line that names the file."""
    try:
        yield
    except ValidationError as error:
        raise FormatError(f"{where}: {one_line(error)}.") from None


def load_json(path: Path, kind: type[Config]) -> Config:
    """What was saved as JSON."""
    content = read_small(path, _MAX_JSON)
    with valid(path):
        return kind.model_validate_json(content)


EVERY_NAME = "every name"
"""A context for `model_dump`: also settings that are not saved where they have their default."""


def override(config: Config, settings: Iterable[str]) -> Config:
    """Apply `a.b=c`, each value read as JSON or else as text. Unknown names are errors."""
    values = config.model_dump(mode="json", context=EVERY_NAME)
    renewed: list[dict[str, Any]] = []
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: expected name=value, as in a.b=3.")
        _set(values, path.split("."), _value(text), setting, renewed)
    try:
        # strict, and as JSON: a list may be given for a tuple, but no text for a number
        return type(config).model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ConfigError(f"--set: {one_line(error)}.") from None


def _set(
    values: dict[str, Any],
    path: list[str],
    value: Any,
    setting: str,
    renewed: list[dict[str, Any]],
) -> None:
    """`renewed` are sections whose kind was changed: validation checks their names later."""
    for name in path[:-1]:
        if not isinstance(values.get(name), dict):
            raise ConfigError(f"--set {setting}: no section {name!r}; there are {_names(values)}.")
        values = values[name]
    name, known = path[-1], any(values is section for section in renewed)
    if name not in values and not known:
        raise ConfigError(f"--set {setting}: no {name!r} there; there are {_names(values)}.")
    if name == "kind" and values["kind"] != value:
        values.clear()  # another kind has other settings
        renewed.append(values)
    old = values.get(name)
    if isinstance(old, dict) and isinstance(value, dict):
        if value.get("kind", old.get("kind")) != old.get("kind"):
            old.clear()
        old.update(value)
        return
    values[name] = value


def _names(values: dict[str, Any]) -> str:
    return ", ".join(values)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
