"""What a name or path is: a shipped model, a native folder, or one of the published formats.
The layouts are a list tried in order; when none fits, the error says what was looked for.
"""

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from torch import nn

from elmore.checkpoint.allennlp import is_allennlp, read_allennlp
from elmore.checkpoint.archive import is_archive, unpacked
from elmore.checkpoint.bert import bert_folder, read_bert, write_bert
from elmore.checkpoint.bert_config import AS_THE_FILES_SAY, WordOptions
from elmore.checkpoint.bert_tf import BERT_CONFIG, read_bert_tf
from elmore.checkpoint.bilm import bilm_of, softmax_of
from elmore.checkpoint.bilm_tf import read_bilm_tf
from elmore.checkpoint.causal import is_causal, read_causal, write_causal
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5, write_hdf5
from elmore.checkpoint.manylangs import is_manylangs, read_manylangs
from elmore.checkpoint.native import is_native, read_native, write_native
from elmore.checkpoint.options import refuse_unwritable
from elmore.checkpoint.tensor_bundle import latest_checkpoint
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.atomic import atomic_file
from elmore.models.bert import Bert
from elmore.models.causal import Causal
from elmore.small_files import read_small
from elmore.text.vocabulary import VOCABULARY

Format = Literal[
    "native", "causal", "bert", "bert-tf", "manylangs", "allennlp", "hdf5", "bilm-tf", "archive"
]

_HDF5_ENDINGS = (".hdf5", ".h5")
_SOFTMAX_MARK = "softmax"  # in the names of published softmax files


@dataclass(frozen=True, slots=True)
class Source:
    """A model on disk: which format, and the files that make it up."""

    format: Format
    path: Path
    """A folder, a weight file, a checkpoint's name without ending, or an archive still packed."""
    options: Path | None = None
    vocabulary: Path | None = None
    softmax: Path | None = None


def shipped_names() -> list[str]:
    """Models inside the package itself."""
    folder = files("elmore") / "pretrained"
    return sorted(f.name for f in folder.iterdir() if f.is_dir()) if folder.is_dir() else []


def find_source(source: str | Path, options: str | Path | None = None) -> Source:
    """Decide what `source` is, or say what was looked for."""
    if not str(source):
        raise InputError("The model's name is empty; expected a shipped name, a folder or a file.")
    path = Path(source)
    if str(source) in shipped_names():
        return Source("native", Path(str(files("elmore") / "pretrained" / str(source))))
    if _exists(index := Path(f"{path}.index")) and not _exists(path):
        path = index  # TensorFlow's checkpoints are named without an ending
    if not _exists(path):
        raise InputError(_not_found(source))
    if path.is_file():
        return _from_file(path, None if options is None else Path(options))
    return _from_folder(path, None if options is None else Path(options))


def load(
    source: str | Path,
    *,
    options: str | Path | None = None,
    heads: bool = False,
    words: WordOptions = AS_THE_FILES_SAY,
) -> Checkpoint:
    """Read any `source`; its heads only if asked for and present."""
    with open_source(source, options) as found:
        return read_source(found, heads=heads, words=words)


@contextmanager
def open_source(source: str | Path, options: str | Path | None = None) -> Iterator[Source]:
    """What `source` is. An archive is unpacked for the duration of the block."""
    found = find_source(source, options)
    if found.format != "archive":
        yield found
        return
    with unpacked(found.path) as folder:
        try:
            yield _from_unpacked(folder, found)
        except FormatError as error:  # the user knows the archive, not the folder
            raise FormatError(str(error).replace(str(folder), str(found.path))) from None


def read_source(
    found: Source, *, heads: bool = False, words: WordOptions = AS_THE_FILES_SAY
) -> Checkpoint:
    """Read what `open_source` has found."""
    if found.format == "bert":
        return read_bert(found.path, heads=heads, words=words)
    if found.format == "bert-tf":
        assert found.options is not None
        return read_bert_tf(found.path, found.options, heads=heads, words=words)
    if words != AS_THE_FILES_SAY:
        raise ConfigError(
            f"{found.path}: `lowercase` and `pieces` are for models that read pieces of words, "
            "such as BERT; this one reads whole words. Leave them out."
        )
    match found.format:
        case "native":
            return read_native(found.path, heads=heads)
        case "causal":
            return read_causal(found.path, heads=heads)
        case "manylangs":
            return read_manylangs(found.path)
        case "allennlp":
            return read_allennlp(found.path, heads=heads)
    assert found.options is not None
    vocabulary, softmax = found.vocabulary, found.softmax if heads else None
    if found.format == "bilm-tf":
        return read_bilm_tf(found.path, found.options, vocabulary=vocabulary, heads=heads)
    return read_hdf5(found.path, found.options, vocabulary=vocabulary, softmax=softmax)


def save(checkpoint: Checkpoint, target: Path) -> list[Path]:
    """Write `checkpoint` where `target` points: a name ending in .hdf5 makes HDF5 and its
    companions, any other a folder, native or Hugging Face's. Returns what was written."""
    if target.suffix not in _HDF5_ENDINGS:
        match checkpoint.model:
            case Bert():
                write_bert(checkpoint, target)
            case Causal():
                write_causal(checkpoint, target)
            case _:
                write_native(checkpoint, target)
        return sorted(path for path in target.rglob("*") if path.is_file())
    refuse_unwritable(bilm_of(checkpoint).config)
    options = target.with_name("options.json")
    softmax = target.with_name(f"{target.stem}_{_SOFTMAX_MARK}{target.suffix}")
    vocabulary = target.with_name(VOCABULARY)
    written = [target, options]
    written += [softmax] if isinstance(softmax_of(checkpoint), nn.Linear) else []
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
    if path.suffix in _HDF5_ENDINGS:
        return _hdf5(path, options or _options_beside(path))
    if path.suffix == ".index":
        return _tensorflow(path.with_suffix(""), options)
    if is_archive(path):
        return Source("archive", path, options=options)
    raise FormatError(
        f"{path}: a file ending in {path.suffix or 'nothing'}; expected .hdf5 weights with "
        "options.json, a .tar.gz or .zip archive, the .index of a TensorFlow checkpoint, or a "
        "folder."
    )


def _from_folder(folder: Path, options: Path | None) -> Source:
    if (found := _find(folder, options)) is not None:
        return found
    looked = "; ".join(f"{files} ({whose})" for files, whose, _ in _LAYOUTS)
    raise FormatError(f"{folder}: no model here. Looked for {looked}.")


def _from_unpacked(folder: Path, archive: Source) -> Source:
    """Many archives contain one folder with the model in it."""
    for place in [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]:
        if (found := _find(place, archive.options)) is not None:
            return found
    return _from_folder(folder, archive.options)


def _find(folder: Path, options: Path | None) -> Source | None:
    found = (find(folder, options) for _, _, find in _LAYOUTS)
    return next((source for source in found if source is not None), None)


def _bert(folder: Path, _: Path | None) -> Source | None:
    """Before elmore's own, whose files have the same names."""
    found = bert_folder(_checkpoint_of_run(folder) or folder)
    return None if found is None else Source("bert", found)


def _native(folder: Path, _: Path | None) -> Source | None:
    run = folder if is_native(folder) else _checkpoint_of_run(folder)
    if run is None:
        return None
    return Source("causal" if is_causal(run) else "native", run)


def _checkpoints(folder: Path, options: Path | None) -> Source | None:
    found = any(folder.glob("*.index"))
    return _tensorflow(latest_checkpoint(folder), options) if found else None


def _tensorflow(prefix: Path, options: Path | None) -> Source:
    """Google's BERT has bert_config.json beside it, bilm-tf options.json."""
    bert = prefix.with_name(BERT_CONFIG)
    if bert.is_file() or (options is not None and options.name == BERT_CONFIG):
        return Source("bert-tf", prefix, options=options or bert)
    options = options or prefix.with_name("options.json")
    if not options.is_file():
        raise FormatError(
            f"{prefix}: its options are missing. Looked for {options} and {BERT_CONFIG}."
        )
    words = prefix.with_name(VOCABULARY)
    vocabulary = words if words.is_file() else None
    return Source("bilm-tf", prefix, options=options, vocabulary=vocabulary)


def _weights(folder: Path, options: Path | None) -> Source | None:
    weights = [p for p in sorted(folder.iterdir()) if p.suffix in _HDF5_ENDINGS]
    weights = [p for p in weights if _SOFTMAX_MARK not in p.name]
    if len(weights) > 1:
        weights = [p for p in weights if "weights" in p.name] or weights
    if len(weights) == 1:
        return _hdf5(weights[0], options or _options_beside(weights[0]))
    if weights:
        names = ", ".join(p.name for p in weights)
        raise FormatError(f"{folder}: holds several weight files ({names}); name one of them.")
    return None


def _checkpoint_of_run(folder: Path) -> Path | None:
    """In a folder of `elmore pretrain`: the best checkpoint by validation, or else the newest."""
    finished = sorted((folder / "checkpoints").glob("step-*"))
    best = folder / "best"
    name = read_small(best).decode("utf-8", "replace").strip() if best.is_file() else ""
    named = folder / "checkpoints" / name
    return named if named in finished else (finished[-1] if finished else None)


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
    except OSError:  # the name is too long for any file
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


# What a model's files are called, whose format it is, and a function that finds it in a folder.
_LAYOUTS: tuple[tuple[str, str, Callable[[Path, Path | None], Source | None]], ...] = (
    ("config.json + model.safetensors or pytorch_model.bin", "Hugging Face's BERT", _bert),
    ("config.json + model.safetensors", "elmore's own", _native),
    (
        "config.json + encoder.pkl + token_embedder.pkl",
        "ELMoForManyLangs",
        lambda folder, _: Source("manylangs", folder) if is_manylangs(folder) else None,
    ),
    (
        "config.json + weights.th",
        "AllenNLP archives",
        lambda folder, _: Source("allennlp", folder) if is_allennlp(folder) else None,
    ),
    ("*.hdf5 + options.json", "AllenNLP, bilm-tf", _weights),
    ("*.index + options.json or bert_config.json", "bilm-tf, Google's BERT", _checkpoints),
)
