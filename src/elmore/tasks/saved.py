"""The folder of a task's training; nothing in it can be executed.

run/
  config.json        task, encoder, settings, state, words, fingerprints of the pretrained parts
  best               the name of the best epoch by the dev score
  checkpoints/epoch-007/model.safetensors, progress.json; of a run under way training.safetensors
  log.jsonl          figures of every epoch
"""

from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, model_validator
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmore.config import Frozen, load_json
from elmore.errors import FormatError
from elmore.tasks.recipes import FitConfig
from elmore.tasks.task import Labels

CONFIG, BEST, CHECKPOINTS = "config.json", "best", "checkpoints"
MODEL, TRAINING, PROGRESS = "model.safetensors", "training.safetensors", "progress.json"
FORMAT, VERSION = "elmore task", 2

# What tensors were called in folders of version 1.
RENAMED = {".elmo.bilm.": ".trainable.model.", "encoder.parts.": "encoder.sources."}


class SavedTask(Frozen):
    """config.json: all that is needed to build the model again, except its weights."""

    format: str = FORMAT
    version: int = VERSION
    fit: FitConfig
    state: Labels
    words: tuple[str, ...]
    """The words that have trained vectors of their own."""
    fingerprints: tuple[str, ...]
    data: str
    """A digest of the examples: a run can be resumed only with the same ones."""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, given: Any) -> Any:
        """In version 1, labels were the only state."""
        match given:
            case {"version": 1, "labels": labels, **rest}:
                return {**rest, "version": VERSION, "state": {"labels": labels}}
        return given


class EpochRecord(BaseModel):
    """progress.json: the state of a training after an epoch."""

    model_config = ConfigDict(extra="forbid")

    epoch: int = 0
    best_epoch: int = 0
    figures: dict[str, float] = {}
    """Of the dev set, at the best epoch."""
    bad: int = 0
    """Epochs since the best."""
    rate: float = 1.0
    """What the learning rate is multiplied by."""
    seconds: float = 0.0
    finished: bool = False


def read_saved(folder: Path) -> SavedTask:
    path = folder / CONFIG
    if not path.is_file():
        raise FormatError(f"{path}: no such file; expected a folder that a training has made.")
    saved = load_json(path, SavedTask)
    if (saved.format, saved.version) != (FORMAT, VERSION):
        raise FormatError(
            f"{path}: format {saved.format!r} version {saved.version}; this elmore reads "
            f"{FORMAT!r} version {VERSION}."
        )
    return saved


def read_record(epoch: Path) -> EpochRecord:
    return load_json(epoch / PROGRESS, EpochRecord)


def epochs(folder: Path) -> list[Path]:
    """Finished ones, oldest first."""
    found = (folder / CHECKPOINTS).glob("epoch-*")
    return sorted(found, key=lambda path: (len(path.name), path.name))  # 1000 comes after 999


def best_epoch(folder: Path) -> Path:
    best = folder / BEST
    if not best.is_file():
        raise FormatError(f"{folder}: no epoch is finished yet; train it first.")
    name = best.read_bytes().decode("utf-8", "replace").strip()
    if name not in {path.name for path in epochs(folder)}:
        raise FormatError(f"{best}: names {name[:40]!r}, which is no epoch of this run.")
    return folder / CHECKPOINTS / name


def epoch_folder(folder: Path, epoch: int) -> Path:
    return folder / CHECKPOINTS / f"epoch-{epoch:03d}"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """By their names of today."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: torch.clone(file.get_tensor(name)) for name in list(file.keys())}
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not a readable safetensors file ({error}).") from None
    for old, new in RENAMED.items():
        tensors = {name.replace(old, new, 1): tensor for name, tensor in tensors.items()}
    return tensors
