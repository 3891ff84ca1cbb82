"""Models on the Hugging Face Hub: `hf:owner/name` or `hf:owner/name@revision`. Files are kept in
the Hub's own cache (HF_HOME), shared with other programs. Only files of a model are downloaded, up
to a limit, and none of them is executed.
"""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from elmore.errors import ConfigError, ElmoreError, FormatError, InputError
from elmore.published.cache import OFFLINE, is_offline
from elmore.published.download import is_watched
from elmore.published.fetch import check_url

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUB = "hf:"
_MAX_BYTES, _MAX_FILES = 1 << 34, 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_TEXT, _SAFE = (".json", ".txt"), ".safetensors"
_WEIGHTS = (".hdf5", ".bin", ".th", ".pkl", ".dic", ".index")  # where there are no safetensors


@dataclass(frozen=True, slots=True)
class HubName:
    """What follows `hf:`."""

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{HUB}{self.repo}" + (f"@{self.revision}" if self.revision else "")


def hub_name(source: str) -> HubName:
    repo, at, revision = source.removeprefix(HUB).partition("@")
    odd = ".." in source or "--" in repo  # the Hub's own rule
    if odd or not _NAME.fullmatch(repo) or (at and not _REVISION.fullmatch(revision)):
        raise InputError(f"{source!r}: expected {HUB}owner/name or {HUB}owner/name@revision.")
    return HubName(repo, revision if at else None)


def hub_folder(source: str, *, download: bool = True) -> Path:
    """The folder of a model in the Hub's cache. Without `download`, or with ELMORE_OFFLINE, it
    must be there already."""
    name, api = hub_name(source), hub_api()
    if not download or is_offline():
        return _in_hub_cache(name)
    with told(name):
        info = api.model_info(name.repo, revision=name.revision, files_metadata=True, timeout=30)
        wanted = wanted_files([(f.rfilename, f.size) for f in info.siblings or []], name)
        return _snapshot(name, [glob.escape(path) for path in wanted], endpoint=api.endpoint)


def _in_hub_cache(name: HubName) -> Path:
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _snapshot(name, [f"*{e}" for e in (*_TEXT, _SAFE)], local_files_only=True)
    except (LocalEntryNotFoundError, OSError, ValueError) as error:
        why = f"{OFFLINE} is set" if is_offline() else "it may not be downloaded here"
        raise InputError(
            f"{name} is not complete in the Hub's cache, and {why}. Run `elmore download {name}` "
            "where there is a network."
        ) from error


def _snapshot(name: HubName, patterns: list[str], **more: Any) -> Path:
    """What the Hub's library has or gets; its bars are shown only where somebody watches."""
    from huggingface_hub import snapshot_download
    from tqdm.auto import tqdm

    class Silent(tqdm):  # type: ignore[misc]
        def __init__(self, *given: Any, **options: Any):
            super().__init__(*given, **{**options, "disable": True})

    bars = None if is_watched() else Silent
    folder = snapshot_download(
        name.repo, revision=name.revision, allow_patterns=patterns, tqdm_class=bars, **more
    )
    assert isinstance(folder, str)
    return Path(folder)


def wanted_files(listed: Sequence[tuple[str, int | None]], name: HubName) -> list[str]:
    """The files of a model in a listing, which is not trusted."""
    for path, _ in listed:
        if "\\" in path or path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise FormatError(f"{name}: lists {path!r:.80}, a path that leads out of its folder.")
    safe = any(path.endswith(_SAFE) for path, _ in listed)
    endings = (*_TEXT, *((_SAFE,) if safe else _WEIGHTS))
    chosen = [
        (path, size) for path, size in listed if path.endswith(endings) or _tensorflow(path, safe)
    ]
    if len(chosen) > _MAX_FILES:
        raise FormatError(f"{name}: {len(chosen):,} files; expected the few of a model.")
    if (total := sum(size or 0 for _, size in chosen)) > _MAX_BYTES:
        raise FormatError(f"{name}: {total:,} bytes; expected at most {_MAX_BYTES:,}.")
    if not chosen:
        raise FormatError(f"{name}: no files of a model there, only {len(listed)} others.")
    return [path for path, _ in chosen]


def _tensorflow(path: str, safe: bool) -> bool:
    last = path.rpartition("/")[2]
    return not safe and (last == "checkpoint" or ".data-" in last)


def hub_api() -> "HfApi":
    """The library's own client, if it is installed and its address may be used."""
    if find_spec("huggingface_hub") is None:
        raise ConfigError("hf: names need huggingface-hub: pip install 'elmore[hub]'.")
    from huggingface_hub import HfApi

    api = HfApi(library_name="elmore")
    check_url(api.endpoint)
    return api


class told:
    """Reports what the Hub or its library complains of in one line about a model."""

    def __init__(self, name: HubName):
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, ElmoreError) or not isinstance(error, Exception):
            return
        from huggingface_hub.errors import (
            GatedRepoError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        match error:
            case GatedRepoError():
                why = "its owner must let you in; ask on its page, then run `hf auth login`"
            case RepositoryNotFoundError():
                why = "no such model on the Hub, or it is private; if so run `hf auth login`"
            case RevisionNotFoundError():
                why = f"it has no revision {self.name.revision or 'main'!r}"
            case _:
                first = str(error).strip().partition("\n")[0]
                why = f"the Hub cannot be used ({type(error).__name__}: {first:.200})"
        raise InputError(f"{self.name}: {why}.") from None
