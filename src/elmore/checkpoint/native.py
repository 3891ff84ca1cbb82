"""elmore's own folder of a biLM: config.json, model.safetensors, the reader's files (vocab.txt;
chars.txt and words.txt of a dictionary), and heads/NAME.safetensors; a lens is one of them that
config.json does not list. Nothing in it can execute.

Version 1 had one head, softmax.safetensors beside the weights, and is still read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from elmore.checkpoint.bilm import (
    SOFTMAX,
    build_softmax,
    check_vocabulary,
    read_dictionaries,
    reader_of,
)
from elmore.checkpoint.checkpoint import (
    Checkpoint,
    LearnedMix,
    TrainedOn,
    build_model,
    check_tensors,
)
from elmore.checkpoint.int8_rows import read_int8_rows, to_int8_rows
from elmore.checkpoint.lens import write_lens
from elmore.checkpoint.loose_json import read_json
from elmore.checkpoint.weight_files import open_safetensors
from elmore.config import Frozen, load_json
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder
from elmore.models.bilm import BiLMConfig
from elmore.nn.softmax import AdaptiveSoftmax, AdaptiveSoftmaxConfig
from elmore.text.dictionary_reader import CHARACTERS, WORDS
from elmore.text.vocabulary import VOCABULARY, Vocabulary

_FLOATS = ("F64", "F32", "F16", "BF16")
CONFIG, MODEL, HEADS = "config.json", "model.safetensors", "heads"
VERSION = 3
"""Heads as int8 came with it; without such heads version 2 is written."""


class LinearHeadConfig(Frozen):
    """One row and one bias per word."""

    kind: Literal["linear"] = "linear"


class Int8HeadConfig(Frozen):
    """The same, rows as int8 with a scale each."""

    kind: Literal["int8"] = "int8"


HeadConfig = Annotated[
    LinearHeadConfig | Int8HeadConfig | AdaptiveSoftmaxConfig, Field(discriminator="kind")
]


class NativeConfig(Frozen):
    """config.json: the model, its heads, and the options it was published with if it is foreign."""

    format: str = "elmore"
    version: int = 2
    model: BiLMConfig
    heads: dict[str, HeadConfig] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    mixes: tuple[LearnedMix, ...] = ()
    notes: tuple[str, ...] = ()
    trained_on: TrainedOn | None = None
    adaptive: AdaptiveSoftmaxConfig | None = None
    """Version 1 only: the softmax is in clusters."""


def is_native(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / MODEL).is_file()


def model_kind(folder: Path) -> str:
    """What config.json says that the model is; a biLM where it says nothing."""
    if not (folder / CONFIG).is_file():
        return "bilm"
    try:
        match read_json(folder / CONFIG):
            case {"format": "elmore", "model": {"kind": str(kind)}}:
                return kind
    except FormatError:  # the reader of the format will report it
        pass
    return "bilm"


def read_native(folder: Path, *, heads: bool = False) -> Checkpoint:
    """Heads are often larger than the model: they are read only when asked for."""
    config = read_config(folder / CONFIG)
    model = build_model(config.model, read_tensors(folder / MODEL), str(folder / MODEL))
    listed = folder / VOCABULARY
    words = Vocabulary.read(listed) if listed.is_file() else None
    dictionary = read_dictionaries(config.model, folder / CHARACTERS, folder / WORDS)
    found = _read_heads(folder, config) if heads else {}
    check_vocabulary(words, config.model, found.get(SOFTMAX), str(listed))
    return Checkpoint(
        model=model,
        reader=reader_of(config.model, words, dictionary),
        heads=found,
        vocabulary=words,
        options=config.options,
        mixes=config.mixes,
        notes=config.notes,
        trained_on=config.trained_on,
    )


def head_files(folder: Path, config: NativeConfig) -> dict[str, Path]:
    """Where each head is, in a folder of either version."""
    old = folder / f"{SOFTMAX}.safetensors"
    if config.version == 1:
        return {SOFTMAX: old} if old.is_file() else {}
    return {name: folder / HEADS / f"{name}.safetensors" for name in config.heads}


def _read_heads(folder: Path, config: NativeConfig) -> dict[str, nn.Linear | AdaptiveSoftmax]:
    kinds: Mapping[str, LinearHeadConfig | Int8HeadConfig | AdaptiveSoftmaxConfig] = config.heads
    if config.version == 1:
        kinds = {SOFTMAX: config.adaptive or LinearHeadConfig()}
    dim = config.model.context.dim
    found: dict[str, nn.Linear | AdaptiveSoftmax] = {}
    for name, path in head_files(folder, config).items():
        match kinds[name]:
            case AdaptiveSoftmaxConfig() as kind:
                found[name] = _read_adaptive(read_tensors(path), dim, kind, path)
            case LinearHeadConfig():
                found[name] = _read_linear(read_tensors(path), dim, path)
            case Int8HeadConfig():
                found[name] = read_int8_rows(path, dim)
    return found


def _read_linear(tensors: dict[str, Tensor], dim: int, path: Path) -> nn.Linear:
    if set(tensors) != {"weight", "bias"}:
        raise FormatError(f"{path}: has {sorted(tensors)}; expected 'bias' and 'weight'.")
    n_words = len(tensors["bias"]) if tensors["bias"].ndim else 0
    check_tensors({"weight": (n_words, dim), "bias": (n_words,)}, tensors, str(path))
    return build_softmax(tensors["weight"], tensors["bias"])


def _read_adaptive(
    tensors: dict[str, Tensor], dim: int, config: AdaptiveSoftmaxConfig, output: Path
) -> AdaptiveSoftmax:
    """The head and the clusters together have one row per word."""
    rows = {name: len(tensor) for name, tensor in tensors.items() if name.endswith("weight")}
    tails = [n for name, n in sorted(rows.items()) if name.endswith("1.weight")]
    n_words = rows.get("inner.head.weight", 0) - len(tails) + sum(tails)
    try:
        with torch.device("meta"):  # its config may call for any size
            softmax = AdaptiveSoftmax(max(n_words, 2), dim, config)
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"{output}: its config does not fit it ({error}).") from None
    shapes = {name: tuple(tensor.shape) for name, tensor in softmax.state_dict().items()}
    check_tensors(shapes, tensors, str(output))
    softmax.load_state_dict(tensors, assign=True)
    return softmax


def write_native(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, complete or absent."""
    with atomic_folder(folder) as beside:
        write_native_files(checkpoint, beside)


def write_native_files(checkpoint: Checkpoint, folder: Path, *, int8_heads: bool = False) -> None:
    """`int8_heads` writes linear heads as int8 with a scale per row."""
    assert isinstance(checkpoint.model.config, BiLMConfig)
    linear = Int8HeadConfig() if int8_heads else LinearHeadConfig()
    heads = {
        name: head.config if isinstance(head, AdaptiveSoftmax) else linear
        for name, head in checkpoint.heads.items()
    }
    config = NativeConfig(
        version=VERSION if any(kind.kind == "int8" for kind in heads.values()) else 2,
        model=checkpoint.model.config,
        heads=heads,
        options=dict(checkpoint.options),
        mixes=checkpoint.mixes,
        notes=checkpoint.notes,
        trained_on=checkpoint.trained_on,
    )
    unsaid = {"trained_on"} if config.trained_on is None else set()
    text = config.model_dump_json(indent=2, exclude={"adaptive", *unsaid})
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    save_tensors(checkpoint.model.state_dict(), folder / MODEL)
    for name, path in head_files(folder, config).items():
        path.parent.mkdir(exist_ok=True)
        head = checkpoint.heads[name]
        if int8_heads and isinstance(head, nn.Linear):
            save_tensors(to_int8_rows(head), path)
        else:
            save_tensors(head.state_dict(), path)
    if checkpoint.lens is not None:
        write_lens(checkpoint.lens, folder)
    files = {} if checkpoint.reader is None else checkpoint.reader.files()
    if checkpoint.vocabulary is not None:
        files[VOCABULARY] = "".join(checkpoint.vocabulary.lines()).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def read_config(path: Path) -> NativeConfig:
    config = load_json(path, NativeConfig)
    check_version(path, config.format, config.version)
    return config


def check_version(path: Path, name: str, version: int) -> None:
    if name != "elmore" or not 1 <= version <= VERSION:
        raise FormatError(
            f"{path}: format {name!r} version {version}; this elmore reads "
            f"format 'elmore' up to version {VERSION}. A newer elmore may have written it."
        )


def read_tensors(path: Path) -> dict[str, Tensor]:
    with open_safetensors(path) as file:
        names = list(file.keys())
        for name in names:
            if (kind := file.get_slice(name).get_dtype()) not in _FLOATS:
                raise FormatError(f"{path}: '{name}' is {kind}; expected one of {_FLOATS}.")
        return {name: file.get_tensor(name).to(torch.float32, copy=True) for name in names}


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """As safetensors; a full disk is an OSError. Its writer makes files that only their owner can
    read: `atomic_file` and `atomic_folder` give them their usual mode."""
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
