"""The files that the names and globs of a command line stand for."""

from collections.abc import Iterable
from pathlib import Path

from elmore.errors import InputError


def find_files(patterns: Iterable[str | Path]) -> list[Path]:
    """The files of each pattern, sorted; a pattern without files is an error."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        paths = [Path(pattern)] if Path(pattern).is_file() else _globbed(Path(pattern))
        if not paths:
            raise InputError(f"{pattern}: no such file; expected text, .gz, .xz or .zst files.")
        for path in paths:
            found.setdefault(path.resolve(), path)  # a file with two names counts once
    return list(found.values())


def _globbed(path: Path) -> list[Path]:
    root = Path(path.anchor)
    try:
        inside = str(path.relative_to(root)) if path.is_absolute() else str(path)
        return sorted(p for p in root.glob(inside) if p.is_file())
    except (IndexError, ValueError, NotImplementedError):  # not a valid pattern
        return []
