"""Build an index in the place of another one, which stays until the new one is complete."""

from collections.abc import Callable
from pathlib import Path

from elmore.errors import InputError
from elmore.files.atomic import remove, sync, writing
from elmore.files.lock import LOCK, Lock
from elmore.search.index_writer import OURS
from elmore.search.manifest import MANIFEST, read_manifest
from elmore.search.sampling import COUNTS, WORDS
from elmore.search.vector_space import CENTER

_NAMES = (MANIFEST, WORDS, COUNTS, CENTER, LOCK, *OURS)


def replace(path: Path, build: Callable[[Path], None]) -> None:
    """`build` makes the new index in the folder that it is given. If it is stopped, the same call
    continues there. Nobody else can write to the old index meanwhile."""
    new, old = _beside(path)
    _check_ours(path)
    lock = Lock(path)
    try:
        if not (new.exists() and read_manifest(new).finished):
            build(new)
        with writing(path):
            remove(old)
            path.rename(old)
            new.rename(path)
            sync(path.parent)
    finally:
        lock.release()
    remove(old)


def restore(path: Path) -> None:
    """Finish what `replace` was killed in: between its two renames there is no index."""
    new, old = _beside(path)
    if old.exists() and not path.exists():
        (new if new.exists() else old).rename(path)
    remove(old)


def _beside(path: Path) -> tuple[Path, Path]:
    """Where the new index is built, and where the old one goes."""
    beside = path.absolute()
    return (
        beside.with_name(f".{beside.name}.elmore-new"),
        beside.with_name(f".{beside.name}.elmore-old"),
    )


def _check_ours(path: Path) -> None:
    """Only an index is replaced, not a folder with other files."""
    if not (path / MANIFEST).is_file():
        raise InputError(f"{path}: not an index, so --force does not replace it.")
    for found in sorted(path.iterdir()):
        if not any(found.match(pattern) for pattern in _NAMES):
            raise InputError(f"{found}: no part of an index; move it, so that --force is safe.")
