"""The files of a run. One that is killed at any moment can resume with the same bits.

run/
  log.jsonl             one JSON object per line, and TensorBoard's files
  best                  the name of the best checkpoint by validation
  checkpoints/step-N/   the model as its users load it, and training.pt: progress, optimizers,
                        where the data stands
"""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from elmore.errors import ConfigError, FormatError
from elmore.files.atomic import atomic_file, atomic_folder
from elmore.train.log import Log
from elmore.train.loop import Loop, Progress

CHECKPOINTS = "checkpoints"
_TRAINING = "training.pt"
_NOT_KEPT = ("fraction", "lr", "interrupted")

Report = Callable[[Progress, dict[str, float]], None]


class RunFolder:
    """The recorder of runs that can be saved after any step."""

    def __init__(self, folder: Path, *, keep: int, report: Report | None = None):
        self.folder, self.keep, self._tell = folder, keep, report
        self._log: Log | None = None

    def start(self, step: int) -> None:
        for left in (self.folder / CHECKPOINTS).glob(".step-*.elmore-tmp"):
            shutil.rmtree(left)  # the run was killed while writing it
        self._log = Log(self.folder, step)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def report(self, progress: Progress, figures: dict[str, float]) -> None:
        seconds = round(progress.seconds, 3)
        figures = {**figures, "lr": progress.lr, "words": progress.words, "seconds": seconds}
        if self._log is not None:
            self._log.write(progress.step, figures)
        if self._tell is not None:
            self._tell(progress, figures)

    def validated(self, progress: Progress, figures: dict[str, float]) -> None:
        self.report(progress, {f"valid_{name}": value for name, value in figures.items()})

    def diverged(self, step: int) -> str:
        return (
            f"Step {step}: the gradient is NaN or infinite; start again with a lower learning rate "
            "(--set loop.optimizer.lr=…), or continue from what is saved, with --from "
            f"{self.folder} into another folder."
        )

    def save(self, loop: Loop, states: list[Any]) -> None:
        """`checkpoints/step-N`; then older ones are removed."""
        progress = loop.progress
        target = self.folder / CHECKPOINTS / _name(progress.step)
        target.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "progress": {k: v for k, v in asdict(progress).items() if k not in _NOT_KEPT},
            "optimizers": [optimizer.state_dict() for optimizer in loop.optimizers],
            "data": states,
        }
        if not target.exists():
            with atomic_folder(target) as beside:
                loop.objective.save(beside)
                # through a Python file, which reports a full disk; torch.save by path does not
                with (beside / _TRAINING).open("wb") as file:
                    torch.save(state, file)
        self._name_best(progress)
        self._prune()

    def _name_best(self, progress: Progress) -> None:
        if progress.best_step is not None:
            with atomic_file(self.folder / "best") as path:
                path.write_text(f"{_name(progress.best_step)}\n", encoding="utf-8")

    def _prune(self) -> None:
        best = self.folder / "best"
        keep = {best.read_text(encoding="utf-8").strip()} if best.exists() else set()
        for old in checkpoints(self.folder)[: -self.keep]:
            if old.name not in keep:
                shutil.rmtree(old)

    def resume(self, loop: Loop) -> Progress:
        """Everything but the model itself, whose weights the caller has read already."""
        newest, world = checkpoints(self.folder)[-1], loop.world
        state = _read_training(newest / _TRAINING)
        if len(state["data"]) != world.size:
            raise ConfigError(
                f"{newest}: written by {len(state['data'])} processes, resumed by "
                f"{world.size}; an exact resume needs the same number."
            )
        progress = Progress(**state["progress"])
        if world.first:
            self._name_best(progress)  # the run may have been killed between the two
        for optimizer, kept in zip(loop.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        loop.objective.restore(state["data"][world.rank])
        return progress


def _name(step: int) -> str:
    return f"step-{step:09d}"


def checkpoints(folder: Path) -> list[Path]:
    """The finished ones, oldest first."""
    return sorted((folder / CHECKPOINTS).glob("step-*"))


def _read_training(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FormatError(
            f"{path}: missing: loadable as a model, but training cannot resume from it."
        ) from None
    except Exception as error:  # torch.load fails in as many ways as a file can be damaged
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(
            f"{path}: not a readable training state ({first}). Remove {path.parent} to resume from "
            "the checkpoint before it."
        ) from None
    return state
