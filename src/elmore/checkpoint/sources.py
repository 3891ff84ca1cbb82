"""What a name or path is: a shipped or published model, a native folder, or a foreign format.
The layouts are a list tried in order; when none fits, the error says what was looked for.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torch import nn

from elmore.checkpoint.allennlp import is_allennlp, read_allennlp
from elmore.checkpoint.archive import PACKED_ENDINGS, is_archive, pack, unpacked
from elmore.checkpoint.bert import bert_folder, read_bert, write_bert
from elmore.checkpoint.bert_config import AS_THE_FILES_SAY, WordOptions
from elmore.checkpoint.bert_tf import BERT_CONFIG, read_bert_tf
from elmore.checkpoint.bilm import bilm_of, softmax_of
from elmore.checkpoint.bilm_tf import read_bilm_tf
from elmore.checkpoint.causal import read_causal, write_causal
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.companions import (
    HDF5_ENDINGS,
    SOFTMAX_MARK,
    choose_part,
    is_hdf5,
    options_beside,
    softmax_beside,
    weights_in,
    words_beside,
)
from elmore.checkpoint.gpt2 import is_gpt2, read_gpt2, writable, write_gpt2
from elmore.checkpoint.hdf5 import read_hdf5, write_hdf5
from elmore.checkpoint.lens import read_lens
from elmore.checkpoint.manylangs import is_manylangs, read_manylangs
from elmore.checkpoint.native import is_native, model_kind, read_native, write_native
from elmore.checkpoint.options import refuse_unwritable
from elmore.checkpoint.source_names import PART_MARK, check_name, exists, is_remote
from elmore.checkpoint.tensor_bundle import latest_checkpoint
from elmore.checkpoint.word_models import (
    KINDS,
    VECTOR_ENDINGS,
    read_word_model,
    vectors_of,
    write_vectors,
    write_word_model,
)
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.atomic import atomic_file
from elmore.models.bert import Bert
from elmore.models.causal import Causal
from elmore.models.context2vec import Context2vec
from elmore.models.static import StaticVectors
from elmore.models.static_table import StaticTable
from elmore.published.catalog import shipped
from elmore.published.download import find_files
from elmore.published.hub import HUB, hub_folder
from elmore.small_files import read_small
from elmore.text.vocabulary import VOCABULARY

Format = Literal[
    "native",
    "causal",
    "words",
    "gpt2",
    "bert",
    "bert-tf",
    "manylangs",
    "allennlp",
    "hdf5",
    "bilm-tf",
    "archive",
]

WITH_LENS: tuple[Format, ...] = ("native", "causal", "bert")
"""Folders that can have one beside the weights; any model can be converted to one of these."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model on disk: which format, and the files that make it up."""

    format: Format
    path: Path
    """A folder, a weight file, a checkpoint's name without ending, or an archive still packed."""
    options: Path | None = None
    vocabulary: Path | None = None
    softmax: Path | None = None
    part: str | None = None
    """Which model of an archive that contains several, by a part of its name."""


def find_source(
    source: str | Path, options: str | Path | None = None, *, download: bool = True
) -> Source:
    """Decide what `source` is, or say what was looked for. A published model that is not in the
    cache is downloaded, if that is allowed."""
    check_name(source)
    path = Path(source)
    for folder in shipped():
        if folder.name == str(source):
            return Source("native", folder)
    if exists(index := Path(f"{path}.index")) and not exists(path):
        path = index  # TensorFlow's checkpoints are named without an ending
    if not exists(path) and is_remote(str(source)):
        path, published = _remote(str(source), download)
        options = options or published
    elif not exists(path):
        named, _, part = str(source).rpartition(PART_MARK)
        return replace(find_source(named, options, download=download), part=part)
    if path.is_file():
        return _from_file(path, None if options is None else Path(options))
    return _from_folder(path, None if options is None else Path(options))


def _remote(source: str, download: bool) -> tuple[Path, Path | None]:
    """A model of the Hugging Face Hub or a published one, with its options if they are apart."""
    if source.startswith(HUB):
        return hub_folder(source, download=download), None
    return find_files(source, download=download)


def load(
    source: str | Path,
    *,
    options: str | Path | None = None,
    heads: bool = False,
    words: WordOptions = AS_THE_FILES_SAY,
    download: bool = True,
) -> Checkpoint:
    """Read any `source`; its heads only if asked for and present."""
    with open_source(source, options, download=download) as found:
        return read_source(found, heads=heads, words=words)


def load_static(source: str) -> StaticVectors:
    """From a file of vectors, or from a folder of `elmore pretrain --recipe sgns`."""
    if not Path(source).is_dir():
        return StaticVectors.load(Path(source))
    try:
        return vectors_of(load(source))
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from None


@contextmanager
def open_source(
    source: str | Path, options: str | Path | None = None, *, download: bool = True
) -> Iterator[Source]:
    """What `source` is. An archive is unpacked for the duration of the block."""
    found = find_source(source, options, download=download)
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
    """Read what `open_source` has found, with its lens if there is one."""
    checkpoint = _read(found, heads, words)
    if found.format not in WITH_LENS:
        return checkpoint
    model = checkpoint.model
    return replace(checkpoint, lens=read_lens(found.path, model.n_layers, model.dim))


def _read(found: Source, heads: bool, words: WordOptions) -> Checkpoint:
    if found.format == "bert":
        return read_bert(found.path, heads=heads, words=words)
    if found.format == "gpt2":
        return read_gpt2(found.path, heads=heads, words=words)
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
        case "words":
            return read_word_model(found.path)
        case "manylangs":
            return read_manylangs(found.path)
        case "allennlp":
            return read_allennlp(found.path, heads=heads, part=found.part)
    assert found.options is not None
    vocabulary, softmax = found.vocabulary, found.softmax if heads else None
    if found.format == "bilm-tf":
        return read_bilm_tf(found.path, found.options, vocabulary=vocabulary, heads=heads)
    return read_hdf5(found.path, found.options, vocabulary=vocabulary, softmax=softmax)


def save(checkpoint: Checkpoint, target: Path) -> list[Path]:
    """Write `checkpoint` where `target` points: a name ending in .hdf5 makes HDF5 and its
    companions, .zip or .tar.gz an archive, any other a folder, native or Hugging Face's. Returns
    what was written."""
    if target.name.endswith(PACKED_ENDINGS):
        return _save_packed(checkpoint, target)
    if target.suffix in VECTOR_ENDINGS:
        write_vectors(vectors_of(checkpoint), target)
        return [target]
    if target.suffix not in HDF5_ENDINGS:
        match checkpoint.model:
            case Bert():
                write_bert(checkpoint, target)
            case Causal() if writable(checkpoint):
                write_gpt2(checkpoint, target)
            case Causal():
                write_causal(checkpoint, target)
            case StaticTable() | Context2vec():
                write_word_model(checkpoint, target)
            case _:
                write_native(checkpoint, target)
        return sorted(path for path in target.rglob("*") if path.is_file())
    refuse_unwritable(bilm_of(checkpoint).config)
    options = target.with_name("options.json")
    softmax = target.with_name(f"{target.stem}_{SOFTMAX_MARK}{target.suffix}")
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


def _save_packed(checkpoint: Checkpoint, target: Path) -> list[Path]:
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    with tempfile.TemporaryDirectory(prefix="elmore-") as beside:
        name = next(target.name.removesuffix(e) for e in PACKED_ENDINGS if target.name.endswith(e))
        folder = Path(beside) / (name or "model")
        save(checkpoint, folder)
        with atomic_file(target) as path:
            pack(folder, path, zipped=target.suffix == ".zip")
    return [target]


def _from_file(path: Path, options: Path | None) -> Source:
    if is_hdf5(path):
        return _hdf5(path, options)
    if path.suffix == ".index":
        return _tensorflow(path.with_suffix(""), options)
    if is_archive(path):
        return Source("archive", path, options=options)
    raise FormatError(
        f"{path}: a file ending in {path.suffix or 'nothing'}; expected .hdf5 weights with "
        "options.json, a .tar.gz, .tar.bz2 or .zip archive, the .index of a TensorFlow "
        "checkpoint, or a folder."
    )


def _from_folder(folder: Path, options: Path | None) -> Source:
    if (found := _find(folder, options)) is not None:
        return found
    looked = "; ".join(f"{files} ({whose})" for files, whose, _ in _LAYOUTS)
    raise FormatError(f"{folder}: no model here. Looked for {looked}.")


def _from_unpacked(folder: Path, archive: Source) -> Source:
    """Many archives contain one folder with the model in it, some contain several."""
    models: dict[Path, Source] = {}
    for place in [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]:
        inside = any(place.is_relative_to(other) for other in models)
        if not inside and (found := _find(place, archive.options)) is not None:
            models[place] = found
    if len(models) <= 1:
        found = next(iter(models.values()), None) or _from_folder(folder, archive.options)
        return replace(found, part=archive.part)
    names = {str(place.relative_to(folder)): found for place, found in models.items()}
    return names[choose_part(str(archive.path), list(names), archive.part)]


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
    match model_kind(run):
        case "causal":
            return Source("causal", run)
        case kind if kind in KINDS:
            return Source("words", run)
    return Source("native", run)


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
    return Source("bilm-tf", prefix, options=options, vocabulary=words_beside(prefix))


def _weights(folder: Path, options: Path | None) -> Source | None:
    weights = weights_in(folder)
    return None if weights is None else _hdf5(weights, options)


def _checkpoint_of_run(folder: Path) -> Path | None:
    """In a folder of `elmore pretrain`: the best checkpoint by validation, or else the newest."""
    finished = sorted((folder / "checkpoints").glob("step-*"))
    best = folder / "best"
    name = read_small(best).decode("utf-8", "replace").strip() if best.is_file() else ""
    named = folder / "checkpoints" / name
    return named if named in finished else (finished[-1] if finished else None)


def _hdf5(weights: Path, options: Path | None) -> Source:
    return Source(
        "hdf5",
        weights,
        options=options or options_beside(weights),
        vocabulary=words_beside(weights),
        softmax=softmax_beside(weights),
    )


# What a model's files are called, whose format it is, and a function that finds it in a folder.
_LAYOUTS: tuple[tuple[str, str, Callable[[Path, Path | None], Source | None]], ...] = (
    (
        "config.json + model.safetensors or pytorch_model.bin",
        "Hugging Face's GPT-2",
        lambda folder, _: Source("gpt2", folder) if is_gpt2(folder) else None,
    ),
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
