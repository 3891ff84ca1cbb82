"""elmore's own folder: config.json, model.safetensors, and when there are any softmax.safetensors,
vocab.txt and the dictionaries of a model that spells by its own (chars.txt, words.txt).
Reading maps the weights into memory; nothing in the folder can execute.
"""

from pathlib import Path
from typing import Any

import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from elmore.checkpoint.checkpoint import (
    Checkpoint,
    LearnedMix,
    build_model,
    build_softmax,
    check_tensors,
    check_vocabulary,
)
from elmore.config import Frozen, one_line
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder
from elmore.models.bilm import BiLMConfig
from elmore.nn.softmax import AdaptiveSoftmax, AdaptiveSoftmaxConfig
from elmore.nn.word_char import WordCharConfig
from elmore.text.dictionary import DictionarySpeller, dictionary_lines, read_dictionary
from elmore.text.vocabulary import Vocabulary

_FLOATS = ("F64", "F32", "F16", "BF16")
CONFIG, MODEL, SOFTMAX, VOCABULARY = (
    "config.json", "model.safetensors", "softmax.safetensors", "vocab.txt",
)  # fmt: skip
CHARACTERS, WORDS = "chars.txt", "words.txt"


class NativeConfig(Frozen):
    """config.json: the model, and the options it was published with if it was not born here."""

    format: str = "elmore"
    version: int = 1
    model: BiLMConfig
    options: dict[str, Any] = Field(default_factory=dict)
    mixes: tuple[LearnedMix, ...] = ()
    notes: tuple[str, ...] = ()
    adaptive: AdaptiveSoftmaxConfig | None = None
    """Set when softmax.safetensors is in clusters; else it has one row a word."""


def is_native(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / MODEL).is_file()


def read_native(folder: Path, *, softmax: bool = False) -> Checkpoint:
    """The softmax is often larger than the model: it is read only when asked for."""
    config = read_config(folder / CONFIG)
    model = build_model(config.model, _tensors(folder / MODEL), str(folder / MODEL))
    vocabulary, output = folder / VOCABULARY, folder / SOFTMAX
    words = Vocabulary.read(vocabulary) if vocabulary.is_file() else None
    layer = None
    if softmax and output.is_file():
        layer = _read_softmax(output, config)
    check_vocabulary(words, model, layer, str(vocabulary))
    return Checkpoint(
        model=model,
        vocabulary=words,
        softmax=layer,
        options=config.options,
        dictionary=_read_dictionary(folder, config.model),
        mixes=config.mixes,
        notes=config.notes,
    )


def _read_softmax(output: Path, config: NativeConfig) -> nn.Linear | AdaptiveSoftmax:
    tensors, dim = _tensors(output), config.model.context.dim
    if config.adaptive is not None:
        return _read_adaptive(tensors, dim, config.adaptive, output)
    if set(tensors) != {"weight", "bias"}:
        raise FormatError(f"{output}: holds {sorted(tensors)}; expected 'bias' and 'weight'.")
    n_words = len(tensors["bias"]) if tensors["bias"].ndim else 0
    shapes = {"weight": (n_words, dim), "bias": (n_words,)}
    check_tensors(shapes, tensors, str(output))
    return build_softmax(tensors["weight"], tensors["bias"])


def _read_adaptive(
    tensors: dict[str, Tensor], dim: int, config: AdaptiveSoftmaxConfig, output: Path
) -> AdaptiveSoftmax:
    """The vocabulary's size is what the head and the clusters hold together."""
    rows = {name: len(tensor) for name, tensor in tensors.items() if name.endswith("weight")}
    tails = [n for name, n in sorted(rows.items()) if name.endswith("1.weight")]
    n_words = rows.get("inner.head.weight", 0) - len(tails) + sum(tails)
    softmax = AdaptiveSoftmax(max(n_words, 2), dim, config)
    shapes = {name: tuple(tensor.shape) for name, tensor in softmax.state_dict().items()}
    check_tensors(shapes, tensors, str(output))
    softmax.load_state_dict(tensors)
    return softmax


def write_native(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, there whole or not at all."""
    with atomic_folder(folder) as beside:
        write_native_files(checkpoint, beside)


def write_native_files(checkpoint: Checkpoint, folder: Path) -> None:
    softmax = checkpoint.softmax
    config = NativeConfig(
        model=checkpoint.model.config,
        options=dict(checkpoint.options),
        mixes=checkpoint.mixes,
        notes=checkpoint.notes,
        adaptive=softmax.config if isinstance(softmax, AdaptiveSoftmax) else None,
    )
    (folder / CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _save(checkpoint.model.state_dict(), folder / MODEL)
    if softmax is not None:
        _save(softmax.state_dict(), folder / SOFTMAX)
    if checkpoint.vocabulary is not None:
        with (folder / VOCABULARY).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(checkpoint.vocabulary.lines())
    if checkpoint.dictionary is not None:
        _write_dictionary(checkpoint.dictionary, folder)


def _read_dictionary(folder: Path, config: BiLMConfig) -> DictionarySpeller | None:
    if not isinstance(config.words, WordCharConfig):
        return None
    n_words, n_characters = config.words.n_words, config.words.characters.n_characters
    characters = read_dictionary(folder / CHARACTERS, n_characters)
    words = read_dictionary(folder / WORDS, n_words) if n_words else None
    return DictionarySpeller(characters, words, config.words.max_characters)


def _write_dictionary(dictionary: DictionarySpeller, folder: Path) -> None:
    tables = {CHARACTERS: dictionary.characters, WORDS: dictionary.words}
    for name, ids in tables.items():
        if ids is not None:
            (folder / name).write_bytes("".join(dictionary_lines(ids)).encode())


def read_config(path: Path) -> NativeConfig:
    try:
        config = NativeConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        raise FormatError(f"{path}: {one_line(error)}.") from None
    if (config.format, config.version) != ("elmore", 1):
        raise FormatError(
            f"{path}: format {config.format!r} version {config.version}; this elmore reads "
            "format 'elmore' version 1. A newer elmore may have written it."
        )
    return config


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            for name in names:
                if (kind := file.get_slice(name).get_dtype()) not in _FLOATS:
                    raise FormatError(f"{path}: '{name}' is {kind}; expected one of {_FLOATS}.")
            # Copied: mapped tensors may lie unaligned, and then products round otherwise.
            return {name: file.get_tensor(name).to(torch.float32, copy=True) for name in names}
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not a readable safetensors file ({error}).") from None


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
