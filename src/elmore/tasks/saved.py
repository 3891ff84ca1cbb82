"""The folder of a task's training; nothing in it can be executed.

run/
  config.json        task, encoder, settings, state, words, fingerprints of the pretrained parts;
                     with a checksum, as progress.json
  best               the name of the best epoch by the dev score
  checkpoints/epoch-007/model.safetensors, progress.json; of a run under way training.safetensors
  log.jsonl          figures of every epoch
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmore.config import Frozen
from elmore.errors import FormatError
from elmore.files.checked import read_settings
from elmore.small_files import file_sha256, read_small
from elmore.tasks.generation_head import GenerationState
from elmore.tasks.recipes import FitConfig
from elmore.tasks.task import Labels

T = TypeVar("T")

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
    state: Annotated[Labels | GenerationState, Field(discriminator="kind")]
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
                return {**rest, "version": VERSION, "state": {"kind": "labels", "labels": labels}}
        return given


class EpochRecord(BaseModel):
    """progress.json: the state of a training after an epoch."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    epoch: int = Field(default=0, ge=0, le=10**9)
    best_epoch: int = Field(default=0, ge=0, le=10**9)
    figures: dict[str, float] = {}
    """Of the dev set, at the best epoch."""
    bad: int = Field(default=0, ge=0)
    """Epochs since the best."""
    rate: float = Field(default=1.0, gt=0, le=1)
    """What the learning rate is multiplied by."""
    seconds: float = Field(default=0.0, ge=0)
    finished: bool = False
    sha256: dict[str, str] = {}
    """Of the epoch's other files; epochs of older versions have none."""


def read_saved(folder: Path) -> SavedTask:
    path = folder / CONFIG
    if not path.is_file():
        raise FormatError(f"{path}: no such file; expected a folder that a training has made.")
    saved = read_settings(path, SavedTask, remedy="train again, or restore it from a copy")
    if (saved.format, saved.version) != (FORMAT, VERSION):
        raise FormatError(
            f"{path}: format {saved.format!r} version {saved.version}; this elmore reads "
            f"{FORMAT!r} version {VERSION}."
        )
    return saved


def read_record(epoch: Path) -> EpochRecord:
    record = read_settings(epoch / PROGRESS, EpochRecord, remedy=f"remove {epoch}")
    named = epoch_folder(epoch.parent.parent, record.epoch) == epoch
    if not named or not record.figures or not 1 <= record.best_epoch <= record.epoch:
        raise FormatError(f"{epoch / PROGRESS}: not the record of an epoch; remove {epoch}.")
    return record


def epochs(folder: Path) -> list[Path]:
    """Finished ones, oldest first."""
    found = (folder / CHECKPOINTS).glob("epoch-*")
    return sorted(found, key=lambda path: (len(path.name), path.name))  # 1000 comes after 999


def best_epoch(folder: Path) -> Path:
    best = folder / BEST
    if not best.is_file():
        raise FormatError(f"{folder}: no epoch is finished yet; train it first.")
    name = read_small(best).decode("utf-8", "replace").strip()
    if name not in {path.name for path in epochs(folder)}:
        raise FormatError(f"{best}: names {name[:40]!r}, which is no epoch of this run.")
    return folder / CHECKPOINTS / name


def epoch_folder(folder: Path, epoch: int) -> Path:
    return folder / CHECKPOINTS / f"epoch-{epoch:03d}"


def digests(epoch: Path) -> dict[str, str]:
    """Of the files with weights."""
    paths = filter(Path.is_file, sorted(epoch.glob("*.safetensors")))
    return {path.name: file_sha256(path) for path in paths}


def check_digests(epoch: Path) -> None:
    """Refuse weights that are not those that the training wrote."""
    expected = read_record(epoch).sha256
    for name, digest in digests(epoch).items():
        if expected.get(name, digest) != digest:
            raise FormatError(f"{epoch / name}: damaged: its checksum differs; train again.")


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """From the header alone, by their names of today; all must be float32."""
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in list(file.keys())}
        for name, found in slices.items():
            if (kind := found.get_dtype()) != "F32":
                raise FormatError(f"{path}: tensor '{name}' is {kind}; expected F32.")
        return _renamed({name: tuple(found.get_shape()) for name, found in slices.items()})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """By their names of today."""
    with _opened(path) as file:
        tensors = {name: torch.clone(file.get_tensor(name)) for name in list(file.keys())}
    return _renamed(tensors)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a file")
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not a readable safetensors file ({error}).") from None


def _renamed(tensors: Mapping[str, T]) -> dict[str, T]:
    for old, new in RENAMED.items():
        tensors = {name.replace(old, new, 1): found for name, found in tensors.items()}
    return dict(tensors)
