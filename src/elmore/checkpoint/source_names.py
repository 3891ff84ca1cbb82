"""What can be said of a model's name without opening the model: nothing here imports torch, so that
a wrong name is told at once.
"""

import difflib
from pathlib import Path

from elmore.errors import InputError
from elmore.published.catalog import catalog, is_published, shipped
from elmore.published.hub import HUB

PART_MARK = "#"  # between a source and the model in it, where there are several


def shipped_names() -> list[str]:
    """Models inside the package itself."""
    return [folder.name for folder in shipped()]


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long for any file
        return False


def is_remote(source: str) -> bool:
    """Whether it names a model of the Hugging Face Hub or a published one."""
    return source.startswith(HUB) or is_published(source)


def check_name(source: str | Path) -> None:
    """An error if there can be no model of this name."""
    if not str(source):
        raise InputError("The model's name is empty; expected a shipped name, a folder or a file.")
    path = Path(source)
    known = str(source) in shipped_names() or is_remote(str(source))
    known = known or exists(path) or exists(Path(f"{path}.index"))
    named, mark, _ = str(source).rpartition(PART_MARK)
    if mark and not known:
        check_name(named)
    elif not known:
        raise InputError(_not_found(source))


def _not_found(source: str | Path) -> str:
    names = shipped_names()
    folder = Path(source).parent
    around = [str(folder / path.name) for path in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(str(source), [*names, *around, *catalog()])
    included = f"shipped models ({', '.join(names)})" if names else "shipped models (none here)"
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    looked = (
        f"looked among {included}, published models (`elmore models`) and for a file or folder of "
        "that name"
    )
    return f"No model {str(source)!r}: {looked}.{hint}"
