"""The files of a run. One that is killed at any moment can resume with the same bits.

run/
  log.jsonl             one JSON object per line, and TensorBoard's files
  best                  the name of the best checkpoint by validation
  checkpoints/step-N/   the model as its users load it, and training.pt: progress, optimizers,
                        where the data stands
"""

import json
import pickletools
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmore.errors import ConfigError, ElmoreError, FormatError
from elmore.files.atomic import atomic_folder, discard, sweep, write_text, writing
from elmore.small_files import read_small
from elmore.train.log import LOG, Log
from elmore.train.loop import Loop, Progress

CHECKPOINTS = "checkpoints"
_TRAINING = "training.pt"
_NAME = re.compile(r"step-\d{9,}")
_NOT_KEPT = ("fraction", "lr", "interrupted")

Report = Callable[[Progress, dict[str, float]], None]


class RunFolder:
    """The recorder of runs that can be saved after any step."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: int,
        report: Report | None = None,
        notes: Sequence[str] = (),
        board: bool = True,
    ):
        """Without `board` there are no files for TensorBoard: it takes seconds to import."""
        self.folder, self.keep, self._tell = folder, keep, report
        self._log: Log | None = None
        self._notes, self._board = notes, board

    def start(self, step: int) -> None:
        for place in (self.folder, self.folder / CHECKPOINTS):
            sweep(place)
        self._log = Log(self.folder, step, board=self._board)
        for text in self._notes if step == 0 else ():
            self.note(0, text)

    def note(self, step: int, text: str) -> None:
        """A line of the log, also before and after the run itself."""
        path = self.folder / LOG
        with writing(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "note": text}, ensure_ascii=False) + "\n")

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
                _write_training(state, beside / _TRAINING)
        self._name_best(progress)
        self._prune()

    def _name_best(self, progress: Progress) -> None:
        if progress.best_step is not None:
            write_text(self.folder / "best", f"{_name(progress.best_step)}\n")

    def _prune(self) -> None:
        best = self.folder / "best"
        keep = read_small(best).decode("utf-8", "replace").split() if best.is_file() else []
        for old in checkpoints(self.folder)[: -self.keep]:
            if old.name not in keep:
                discard(old)

    def resume(self, loop: Loop) -> Progress:
        """Everything but the model itself, whose weights the caller has read already."""
        newest, world = checkpoints(self.folder)[-1], loop.world
        try:
            state = _read_training(newest / _TRAINING)
            if len(state["data"]) != world.size:
                raise ConfigError(
                    f"{newest}: written by {len(state['data'])} processes, resumed by "
                    f"{world.size}; an exact resume needs the same number."
                )
            progress = Progress(**state["progress"])
            for optimizer, kept in zip(loop.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(kept)
                _check_shapes(optimizer)
            loop.objective.restore(state["data"][world.rank])
        except ElmoreError:
            raise
        except Exception as error:  # it fails in as many ways as a file can be damaged
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise FormatError(
                f"{newest / _TRAINING}: not a readable training state ({first:.200}). Remove "
                f"{newest} to resume from the checkpoint before it."
            ) from None
        if world.first:
            self._name_best(progress)  # the run may have been killed between the two
        return progress


def _name(step: int) -> str:
    return f"step-{step:09d}"


def checkpoints(folder: Path) -> list[Path]:
    """The finished ones, oldest first; copies under other names are not among them."""
    found = (folder / CHECKPOINTS).glob("step-*")
    return sorted(path for path in found if _NAME.fullmatch(path.name) and path.is_dir())


def _write_training(state: dict[str, Any], path: Path) -> None:
    try:
        # through a Python file, which reports a full disk; torch.save by path does not
        with path.open("wb") as file:
            torch.save(state, file)
    except RuntimeError as error:  # torch cannot end its file, after the system's own error
        cause = error.__context__
        raise cause if isinstance(cause, OSError) else OSError(str(error).splitlines()[0]) from None


def _read_training(path: Path) -> dict[str, Any]:
    """It takes no more memory than the file, and its checksums are right."""
    if not path.is_file():
        raise FormatError(
            f"{path}: missing: loadable as a model, but training cannot resume from it."
        )
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its parts overlap")
        if (damaged := archive.testzip()) is not None:  # torch itself does not look
            raise ValueError(f"the checksum of {damaged} is wrong")
        for pickle in (m for m in members if m.filename.endswith(".pkl")):
            for code, argument, _ in pickletools.genops(archive.read(pickle)):
                if code.name == "GLOBAL" and "bytearray" in str(argument):
                    raise ValueError("it names bytearray, which can be of any size")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _check_shapes(optimizer: torch.optim.Optimizer) -> None:
    """torch believes any tensor to be the state of a parameter."""
    for p, kept in optimizer.state.items():
        for name, value in kept.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != p.shape:
                shapes = f"{tuple(value.shape)}, expected {tuple(p.shape)}"
                raise ValueError(f"an optimizer's {name} has shape {shapes}")
