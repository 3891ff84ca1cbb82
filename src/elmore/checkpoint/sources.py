"""What a name or path is: a shipped model, a native folder, or one of the published formats.
The layouts are a list tried in order; when none fits, the error says what was looked for.
"""

import difflib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from elmore.atomic import atomic_file
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5, write_hdf5
from elmore.checkpoint.native import VOCABULARY, is_native, read_native, write_native
from elmore.errors import FormatError, InputError

Format = Literal["native", "hdf5"]

_HDF5_ENDINGS = (".hdf5", ".h5")
_SOFTMAX_MARK = "softmax"  # published softmax files say so in their name


@dataclass(frozen=True, slots=True)
class Source:
    """A model on disk: which format, and the files that make it up."""

    format: Format
    path: Path
    options: Path | None = None
    vocabulary: Path | None = None
    softmax: Path | None = None


def shipped_names() -> list[str]:
    """Models inside the package itself."""
    folder = files("elmore") / "pretrained"
    return sorted(f.name for f in folder.iterdir() if f.is_dir()) if folder.is_dir() else []


def find_source(source: str | Path, options: str | Path | None = None) -> Source:
    """Decide what `source` is, or say what was looked for."""
    path = Path(source)
    if str(source) in shipped_names():
        return Source("native", Path(str(files("elmore") / "pretrained" / str(source))))
    if not _exists(path):
        raise InputError(_not_found(source))
    if path.is_file():
        return _from_file(path, None if options is None else Path(options))
    return _from_folder(path, None if options is None else Path(options))


def load(
    source: str | Path, *, options: str | Path | None = None, softmax: bool = False
) -> Checkpoint:
    """Read whatever `source` is; the softmax only when asked for and there."""
    found = find_source(source, options)
    if found.format == "native":
        return read_native(found.path, softmax=softmax)
    assert found.options is not None
    return read_hdf5(
        found.path,
        found.options,
        vocabulary=found.vocabulary,
        softmax=found.softmax if softmax else None,
    )


def save(checkpoint: Checkpoint, target: Path) -> list[Path]:
    """Write `checkpoint` where `target` points: a name ending in .hdf5 makes HDF5 and its
    companions, any other a native folder. Returns what was written."""
    if target.suffix not in _HDF5_ENDINGS:
        write_native(checkpoint, target)
        return sorted(target.iterdir())
    options = target.with_name("options.json")
    softmax = target.with_name(f"{target.stem}_{_SOFTMAX_MARK}{target.suffix}")
    vocabulary = target.with_name(VOCABULARY)
    written = [target, options]
    written += [] if checkpoint.softmax is None else [softmax]
    written += [] if checkpoint.vocabulary is None else [vocabulary]
    for path in written:
        if path.exists():
            raise InputError(f"{path} exists already; remove it or choose another name.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder; make it first.")
    write_hdf5(checkpoint, target, options, softmax)
    if checkpoint.vocabulary is not None:
        with atomic_file(vocabulary) as path:
            path.write_bytes("".join(checkpoint.vocabulary.lines()).encode())
    return written


def _from_file(path: Path, options: Path | None) -> Source:
    if path.suffix not in _HDF5_ENDINGS:
        raise FormatError(
            f"{path}: a file ending in {path.suffix or 'nothing'}; expected .hdf5 weights with "
            "options.json, or a folder."
        )
    return _hdf5(path, options or _options_beside(path))


def _from_folder(folder: Path, options: Path | None) -> Source:
    if is_native(folder):
        return Source("native", folder)
    weights = [p for p in sorted(folder.iterdir()) if p.suffix in _HDF5_ENDINGS]
    weights = [p for p in weights if _SOFTMAX_MARK not in p.name]
    if len(weights) > 1:
        weights = [p for p in weights if "weights" in p.name] or weights
    if len(weights) == 1:
        return _hdf5(weights[0], options or _options_beside(weights[0]))
    if weights:
        names = ", ".join(p.name for p in weights)
        raise FormatError(f"{folder}: holds several weight files ({names}); name one of them.")
    raise FormatError(
        f"{folder}: no model here. Looked for config.json + model.safetensors (elmore's own), and "
        "*.hdf5 + options.json (AllenNLP, bilm-tf)."
    )


def _hdf5(weights: Path, options: Path) -> Source:
    beside = [p for p in sorted(weights.parent.iterdir()) if p.suffix in _HDF5_ENDINGS]
    softmax = [p for p in beside if _SOFTMAX_MARK in p.name and p != weights]
    vocabulary = weights.with_name(VOCABULARY)
    return Source(
        "hdf5",
        weights,
        options=options,
        vocabulary=vocabulary if vocabulary.is_file() else None,
        softmax=softmax[0] if len(softmax) == 1 else None,
    )


def _options_beside(weights: Path) -> Path:
    """options.json, or the published pairs `X_weights.hdf5` and `X_options.json`."""
    candidates = [
        weights.with_name("options.json"),
        weights.with_name(weights.stem.removesuffix("_weights") + "_options.json"),
        weights.with_suffix(".json"),
    ]
    for path in candidates:
        if path.is_file():
            return path
    names = ", ".join(path.name for path in candidates)
    raise FormatError(f"{weights}: its options are missing. Looked beside it for {names}.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a text given for a path: its name is too long for any file
        return False


def _not_found(source: str | Path) -> str:
    names = shipped_names()
    folder = Path(source).parent
    around = [str(folder / path.name) for path in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(str(source), [*names, *around])
    shipped = f"shipped models ({', '.join(names)})" if names else "shipped models (none here)"
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    looked = f"looked among {shipped} and for a file or folder of that name"
    return f"No model {str(source)!r}: {looked}.{hint}"
