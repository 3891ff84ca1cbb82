"""Published models by name: found in the cache, or downloaded into it."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

from elmore.errors import ElmoreWarning, FormatError, InputError
from elmore.files.atomic import writing
from elmore.files.lock import Lock
from elmore.published.cache import (
    OFFLINE,
    CachedModel,
    FileRecord,
    cache_folder,
    is_offline,
    measured,
)
from elmore.published.catalog import Published, PublishedFile, catalog, find_published
from elmore.published.fetch import Progress, UnreachableError, fetch

MIRROR = "ELMORE_MIRROR"
Watcher = Callable[[], AbstractContextManager[Progress]]
_WATCHER: ContextVar[Watcher] = ContextVar("watcher")


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Show every download in the block, also of a model that is only named in it. `watcher` is
    called when one begins."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def is_watched() -> bool:
    return _WATCHER.get(None) is not None


def find_files(name: str, *, download: bool = True) -> tuple[Path, Path | None]:
    """The weights (or the archive) and the options of a published model. What is not in the cache
    is downloaded, unless `download` is False or ELMORE_OFFLINE is set."""
    here = cached(find_published(name))
    if here.missing():
        if is_offline():
            raise InputError(f"{_not_here(here)}, and {OFFLINE} is set. {by_hand(here)}")
        if not download:
            raise InputError(f"{_not_here(here)}: run `elmore download {here.model.name}` first.")
        if not is_watched():
            text = f"{here.model.name} is downloaded to {here.folder}; this may take minutes."
            warnings.warn(text, ElmoreWarning, stacklevel=2)
        _download(here, None, accept_changed=False)
    here.check()
    options = None if (file := here.model.options) is None else here.folder / file.name
    return here.folder / here.model.weights.name, options


def download(
    name: str, *, progress: Progress | None = None, accept_changed: bool = False
) -> CachedModel:
    """Download what is missing of a published model, and compare it with its first download."""
    here = cached(find_published(name))
    if here.missing():
        if is_offline():
            raise InputError(f"{_not_here(here)}, and {OFFLINE} is set. {by_hand(here)}")
        _download(here, progress, accept_changed=accept_changed)
    here.check(thoroughly=True)
    return here


def cached(model: Published) -> CachedModel:
    return CachedModel(model, cache_folder())


def in_cache() -> list[CachedModel]:
    """Every published model, whether it is in the cache or not."""
    return [cached(model) for model in catalog().values()]


def by_hand(here: CachedModel) -> str:
    """What to do where nothing can be downloaded."""
    missing = here.missing()
    urls = [file.urls[0] for file in here.model.files if file.name in missing]
    return f"Fetch {' and '.join(urls)} elsewhere and put what you get in {here.folder}."


def _not_here(here: CachedModel) -> str:
    return f"{here.model.name} is not in the cache ({here.cache})"


def _download(here: CachedModel, progress: Progress | None, *, accept_changed: bool) -> None:
    with writing(here.folder):
        here.folder.mkdir(parents=True, exist_ok=True)
    watcher = _WATCHER.get(None)
    watched = nullcontext(progress) if progress or watcher is None else watcher()
    with Lock(here.folder, beside=True), watched as show:
        for file in here.model.files:
            if not (here.folder / file.name).is_file():
                _download_file(here, file, show, accept_changed)


def _download_file(
    here: CachedModel, file: PublishedFile, progress: Progress | None, accept_changed: bool
) -> None:
    """From the first address that has it. It becomes part of the model once it is verified."""
    arrived = here.folder / f".{file.name}.new"
    watch = progress and (lambda _, done, total: progress(file.name, done, total))
    failures = []
    for url in _urls(here.model, file):
        try:
            if not arrived.is_file():  # otherwise a killed process had it complete
                fetch(url, arrived, watch)
            break
        except UnreachableError as error:
            failures.append(str(error))
    else:
        raise UnreachableError(f"{' '.join(failures)} {by_hand(here)}")
    found, expected = measured(arrived), here.record().files.get(file.name)
    if expected not in (None, found) and not accept_changed:
        arrived.unlink()
        raise _changed(here, file, found, expected)
    here.note(file.name, found)
    with writing(here.folder):
        arrived.replace(here.folder / file.name)


def _urls(model: Published, file: PublishedFile) -> tuple[str, ...]:
    """With ELMORE_MIRROR only the mirror's, which has a folder per model."""
    mirror = os.environ.get(MIRROR)
    return (f"{mirror.rstrip('/')}/{model.name}/{file.name}",) if mirror else file.urls


def _changed(
    here: CachedModel, file: PublishedFile, found: FileRecord, expected: FileRecord | None
) -> FormatError:
    assert expected is not None
    return FormatError(
        f"{file.name}: the server's file is not the one of the first download (SHA-256 "
        f"{found.sha256[:12]}…, expected {expected.sha256[:12]}…); not kept. If the new one is "
        f"right, run `elmore download {here.model.name} --accept-changed`."
    )
