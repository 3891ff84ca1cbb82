"""elmore's own folder: config.json, model.safetensors, and when there are any softmax.safetensors
and vocab.txt. Reading maps the weights into memory; nothing in the folder can execute.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmore.atomic import atomic_folder
from elmore.checkpoint.checkpoint import (
    Checkpoint,
    build_model,
    build_softmax,
    check_tensors,
    check_vocabulary,
    one_line,
)
from elmore.errors import FormatError
from elmore.models.bilm import BiLMConfig
from elmore.text.vocabulary import Vocabulary

CONFIG, MODEL, SOFTMAX, VOCABULARY = (
    "config.json", "model.safetensors", "softmax.safetensors", "vocab.txt",
)  # fmt: skip


class NativeConfig(BaseModel):
    """config.json: the model, and the options it was published with if it was not born here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = "elmore"
    version: int = 1
    model: BiLMConfig
    options: dict[str, Any] = {}


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
        tensors = _tensors(output)
        if set(tensors) != {"weight", "bias"}:
            raise FormatError(f"{output}: holds {sorted(tensors)}; expected 'bias' and 'weight'.")
        n_words = len(tensors["bias"]) if tensors["bias"].ndim else 0
        shapes = {"weight": (n_words, config.model.context.dim), "bias": (n_words,)}
        check_tensors(shapes, tensors, str(output))
        layer = build_softmax(tensors["weight"], tensors["bias"])
    check_vocabulary(words, model, layer, str(vocabulary))
    return Checkpoint(model=model, vocabulary=words, softmax=layer, options=config.options)


def write_native(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, there whole or not at all."""
    with atomic_folder(folder) as beside:
        write_native_files(checkpoint, beside)


def write_native_files(checkpoint: Checkpoint, folder: Path) -> None:
    config = NativeConfig(model=checkpoint.model.config, options=dict(checkpoint.options))
    (folder / CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _save(checkpoint.model.state_dict(), folder / MODEL)
    if checkpoint.softmax is not None:
        _save(checkpoint.softmax.state_dict(), folder / SOFTMAX)
    if checkpoint.vocabulary is not None:
        with (folder / VOCABULARY).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(checkpoint.vocabulary.lines())


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
            return {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not a readable safetensors file ({error}).") from None


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
