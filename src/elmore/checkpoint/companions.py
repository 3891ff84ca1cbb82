"""The files that belong to HDF5 weights: options, a list of words, a softmax. Published models have
them under many names. And which model is meant where there are several.
"""

from collections.abc import Sequence
from pathlib import Path

from elmore.checkpoint.source_names import PART_MARK
from elmore.errors import FormatError
from elmore.small_files import open_regular
from elmore.text.vocabulary import VOCABULARY, VOCABULARY_GZ

HDF5_ENDINGS = (".hdf5", ".h5")
SOFTMAX_MARK = "softmax"  # in the names of published softmax files

_HDF5_START = b"\x89HDF\r\n\x1a\n"
_KEPT_WEIGHTS, _KEPT_OPTIONS = "weight_file", "options_file"  # how archives of AllenNLP keep them


def is_hdf5(path: Path) -> bool:
    """By the name or else by the first bytes: files in AllenNLP's cache have no endings."""
    if path.suffix in HDF5_ENDINGS:
        return True
    try:
        with open_regular(path) as file:
            return file.read(len(_HDF5_START)) == _HDF5_START
    except OSError:
        return False  # why it cannot be read is said by who reads it


def weights_in(folder: Path) -> Path | None:
    """The file of weights in a folder, if there is one."""
    endings = (*HDF5_ENDINGS, f".{_KEPT_WEIGHTS}")
    weights = [p for p in sorted(folder.iterdir()) if p.suffix in endings]
    weights = [p for p in weights if SOFTMAX_MARK not in p.name]
    if len(weights) > 1:
        weights = [p for p in weights if "weights" in p.name] or weights
    if len(weights) > 1:
        names = ", ".join(p.name for p in weights)
        raise FormatError(f"{folder}: holds several weight files ({names}); name one of them.")
    return weights[0] if weights else None


def options_beside(weights: Path) -> Path:
    """options.json; the published pairs `X_weights_Y.hdf5` and `X_options_Y.json`, the second also
    without its `_Y`; or the only file that has options in its name."""
    before, _, after = weights.stem.partition("_weights")
    candidates = [
        weights.with_name("options.json"),
        weights.with_name(f"{before}_options{after}.json"),
        weights.with_name(f"{before}_options.json"),
        weights.with_suffix(".json"),
    ]
    if weights.name.endswith(_KEPT_WEIGHTS):
        candidates.append(
            weights.with_name(weights.name.removesuffix(_KEPT_WEIGHTS) + _KEPT_OPTIONS)
        )
    candidates = list(dict.fromkeys(candidates))
    for path in candidates:
        if path.is_file():
            return path
    others = [p for p in sorted(weights.parent.glob("*options*.json")) if p.is_file()]
    if len(others) == 1:
        return others[0]
    names = ", ".join(path.name for path in candidates)
    several = f" There are {', '.join(p.name for p in others)}: name one." if others else ""
    raise FormatError(f"{weights}: its options are missing. Looked beside it for {names}.{several}")


def words_beside(weights: Path) -> Path | None:
    places = (weights.with_name(name) for name in (VOCABULARY, VOCABULARY_GZ))
    return next((path for path in places if path.is_file()), None)


def softmax_beside(weights: Path) -> Path | None:
    beside = [p for p in sorted(weights.parent.iterdir()) if p.suffix in HDF5_ENDINGS]
    found = [p for p in beside if SOFTMAX_MARK in p.name and p != weights]
    return found[0] if len(found) == 1 else None


def choose_part(where: str, names: Sequence[str], part: str | None) -> str:
    """The only name that is or contains `part`. Without `part` there must be one name only."""
    exact = [name for name in names if name == part]
    fitting = exact or [name for name in names if part is None or part in name]
    if len(fitting) == 1:
        return fitting[0]
    told = "contains several models" if part is None else f"{part!r} is not one of its models"
    raise FormatError(
        f"{where}: {told} ({', '.join(names)}). Write a part of the name of one after it: "
        f"{where}{PART_MARK}{names[0]}."
    )
