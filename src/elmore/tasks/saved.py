"""The folder that a task's training leaves; nothing in it can execute.

run/
  config.json        task, encoder, settings, state, words, fingerprints of the pretrained parts
  best               the name of the best epoch by the dev score
  checkpoints/epoch-007/model.safetensors, progress.json; of a run under way training.safetensors
  log.jsonl          figures of every epoch
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmore.config import Frozen, one_line
from elmore.errors import FormatError
from elmore.files.atomic import atomic_file, atomic_folder
from elmore.tasks.fit_config import FitConfig
from elmore.tasks.kinds import AnyState

CONFIG, BEST, CHECKPOINTS = "config.json", "best", "checkpoints"
MODEL, TRAINING, PROGRESS = "model.safetensors", "training.safetensors", "progress.json"
FORMAT, VERSION = "elmore task", 2

# What tensors were called in folders of version 1.
RENAMED = {".elmo.bilm.": ".trainable.model.", "encoder.parts.": "encoder.sources."}

M = TypeVar("M", bound=BaseModel)


class SavedTask(Frozen):
    """config.json: all that is needed to build the model again, but its weights."""

    format: str = FORMAT
    version: int = VERSION
    fit: FitConfig
    state: AnyState
    words: tuple[str, ...]
    """Those with trained vectors of their own."""
    fingerprints: tuple[str, ...]
    data: str
    """A digest of the examples: a run goes on with the ones it began with."""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, given: Any) -> Any:
        """There, labels were the only state."""
        if not isinstance(given, dict) or given.get("version") != 1 or "labels" not in given:
            return given
        rest = {name: value for name, value in given.items() if name != "labels"}
        return {**rest, "version": VERSION, "state": {"labels": given["labels"]}}


class EpochRecord(BaseModel):
    """progress.json: where a training stands after an epoch."""

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
    saved = _read(path, SavedTask)
    if (saved.format, saved.version) != (FORMAT, VERSION):
        raise FormatError(
            f"{path}: format {saved.format!r} version {saved.version}; this elmore reads "
            f"{FORMAT!r} version {VERSION}."
        )
    return saved


def read_record(epoch: Path) -> EpochRecord:
    return _read(epoch / PROGRESS, EpochRecord)


def _read(path: Path, kind: type[M]) -> M:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        raise FormatError(f"{path}: {one_line(error)}.") from None


def write_saved(saved: SavedTask, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / CONFIG) as path:
        path.write_text(saved.model_dump_json(indent=1) + "\n", encoding="utf-8")


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


def write_epoch(
    folder: Path,
    record: EpochRecord,
    save_model: Callable[[Path], None],
    training: dict[str, Tensor],
) -> None:
    """There whole or not at all; then older ones go, but the best."""
    target = folder / CHECKPOINTS / _name(record.epoch)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(target) as beside:
        save_model(beside)
        if not record.finished:
            write_tensors(training, beside / TRAINING)
        text = record.model_dump_json(indent=1) + "\n"
        (beside / PROGRESS).write_text(text, encoding="utf-8")
    name_best(folder, record)
    for old in epochs(folder):
        if old.name not in (_name(record.epoch), _name(record.best_epoch)):
            shutil.rmtree(old)
        elif record.finished:
            (old / TRAINING).unlink(missing_ok=True)


def name_best(folder: Path, record: EpochRecord) -> None:
    with atomic_file(folder / BEST) as path:
        path.write_text(f"{_name(record.best_epoch)}\n", encoding="utf-8")


def _name(epoch: int) -> str:
    return f"epoch-{epoch:03d}"


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {_renamed(name): torch.clone(file.get_tensor(name)) for name in names}
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not a readable safetensors file ({error}).") from None


def _renamed(name: str) -> str:
    for old, new in RENAMED.items():
        name = name.replace(old, new, 1)
    return name


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
