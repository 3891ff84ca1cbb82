"""The one training loop: gradients summed over micro-batches and processes, clipped, applied;
checkpoints that are whole or absent; a run killed at any moment resumes to the last bit.

Everything random in a step comes from (seed, step, rank), so no generator's state is ever kept.
"""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.atomic import atomic_file, atomic_folder
from elmore.train.log import Log
from elmore.train.optimizer import AdagradConfig, OptimizerConfig, build_optimizers
from elmore.train.schedule import ConstantSchedule, PlateauSchedule, Schedule
from elmore.train.world import World

CHECKPOINTS = "checkpoints"
_TRAINING = "training.pt"


class LoopConfig(Frozen):
    """How long, how fast, how often. One of steps and minutes ends the run."""

    model_config = ConfigDict(allow_inf_nan=False)

    steps: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    """Of training time, resumed runs added up."""
    optimizer: OptimizerConfig = AdagradConfig()
    schedule: Schedule = ConstantSchedule()
    clip: float | None = Field(default=10.0, gt=0)
    """Global norm of the gradient; null for none."""
    loss_scale: float = Field(default=1.0, gt=0)
    """The gradient is that of the mean loss times this; bilm-tf multiplies by its unroll steps."""
    accumulate: int = Field(default=1, ge=1)
    seed: int = Field(default=1, ge=0, lt=2**63)
    log_steps: int = Field(default=20, ge=1)
    checkpoint_minutes: float = Field(default=5.0, gt=0)
    valid_steps: int | None = Field(default=None, ge=1)
    """Validate every so many steps; null: with every checkpoint."""
    keep: int = Field(default=2, ge=1)
    """Checkpoints kept, newest first; the best by validation is kept besides."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Summed over `count` predictions; `parts` are sums to be reported as means."""

    total: Tensor
    count: int
    parts: dict[str, float] = field(default_factory=dict)


class Objective(Protocol):
    """What is trained. The loop asks for losses, and for what must be kept to go on."""

    module: nn.Module
    sparse: set[nn.Parameter]

    def next_loss(self, rng: np.random.Generator) -> Loss: ...
    def validate(self) -> dict[str, float]:
        """Figures of held-out data, lower is better for the first; empty when there is none."""

    def state(self) -> Any:
        """Where the data stands, in plain types and tensors."""

    def restore(self, state: Any) -> None: ...
    def save(self, folder: Path) -> None:
        """The model, in the form its users load."""


@dataclass(slots=True)
class Progress:
    """Where a run stands; all of it is in the checkpoint."""

    step: int = 0
    seconds: float = 0.0
    words: int = 0
    best: float | None = None
    best_step: int | None = None
    drops: int = 0
    tally: dict[str, float] = field(default_factory=dict)
    """Sums since the last report."""
    fraction: float = 0.0
    """How much of the run is done."""
    interrupted: int = 0
    """The signal that ended the run before its time; 0 for none."""


Report = Callable[[Progress, dict[str, float]], None]


class Loop:
    """Trains an objective in a run folder, from its newest checkpoint if there is one."""

    def __init__(self, objective: Objective, config: LoopConfig, folder: Path, world: World):
        if config.steps is None and config.minutes is None:
            raise ConfigError("Neither steps, epochs nor minutes are set: the run would not end.")
        self.objective, self.config, self.folder, self.world = objective, config, folder, world
        self.optimizers = build_optimizers(config.optimizer, objective.module, objective.sparse)
        self.progress = Progress()
        self.parameters = [p for p in objective.module.parameters() if p.requires_grad]
        self.device = next(objective.module.parameters()).device

    def run(self, report: Report | None = None) -> Progress:
        """Until the end, or a signal: then a last checkpoint, and back. True ends are recorded."""
        progress = self.progress
        started, saved = time.monotonic() - progress.seconds, progress.seconds
        log = self._log() if self.world.first else None
        with _signals() as stop:
            while not self._finished():
                told = self._step(stop)
                # One clock for all: each process must come to the same decisions below.
                progress.seconds = self.world.mean(time.monotonic() - started, self.device)
                if progress.step % self.config.log_steps == 0:
                    self._report(_means(progress.tally), log, report)
                    progress.tally = {}
                due = progress.seconds - saved > 60 * self.config.checkpoint_minutes
                better = self._validation_due(due) and self._validate(log, report)
                if told or due or better or self._finished():
                    self.save()
                    saved = progress.seconds
                if told and not self._finished():
                    progress.interrupted = stop[0] if stop else signal.SIGTERM
                    break
        progress.fraction = self._fraction()
        if log is not None:
            log.close()
        return progress

    def _log(self) -> Log:
        for left in (self.folder / CHECKPOINTS).glob(".step-*.elmore-tmp"):
            shutil.rmtree(left)  # a kill came while it was being written
        return Log(self.folder, self.progress.step)

    def _step(self, stop: list[int]) -> bool:
        """One update. Returns whether any process was asked to stop."""
        progress, config = self.progress, self.config
        progress.step += 1
        torch.manual_seed(_seed(config.seed, progress.step, self.world.rank))
        figures = {"loss": 0.0, "count": 0.0}
        for micro in range(config.accumulate):
            rng = np.random.default_rng((config.seed, progress.step, micro))
            loss = self.objective.next_loss(rng)
            loss.total.backward()
            for name, value in {
                "loss": loss.total.item(),
                "count": loss.count,
                **loss.parts,
            }.items():
                figures[name] = figures.get(name, 0.0) + value
        figures["stop"] = float(len(stop))
        figures = dict(
            zip(figures, self.world.sum(list(figures.values()), self.device), strict=True)
        )
        self.world.sum_gradients(self.parameters)
        norm = self._scale_gradients(config.loss_scale / figures["count"])
        self._apply()
        progress.words += int(figures["count"])
        tally = progress.tally
        tally["norm"] = norm
        for name, value in figures.items():
            tally[name] = tally.get(name, 0.0) + value
        return figures["stop"] > 0

    def _scale_gradients(self, scale: float) -> float:
        """Mean instead of sum, then the clip: one multiplication. Returns the norm before it."""
        grads = []
        for p in self.parameters:
            if p.grad is not None and p.grad.is_sparse:
                p.grad = p.grad.coalesce()
            if p.grad is not None:
                grads.append(p.grad._values() if p.grad.is_sparse else p.grad)
        norm = scale * float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
        if not np.isfinite(norm):
            raise InputError(
                f"Step {self.progress.step}: the gradient is not a number; start again with a "
                "lower learning rate (--set loop.optimizer.lr=…), or go on from what is saved, "
                f"with --from {self.folder} into another folder."
            )
        clip = self.config.clip
        torch._foreach_mul_(
            grads, scale if clip is None else scale * min(1.0, clip / (norm + 1e-6))
        )
        return norm

    def _apply(self) -> None:
        lr = self.config.optimizer.lr * self._factor()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def _factor(self) -> float:
        p = self.progress
        return self.config.schedule.factor(p.step, self._fraction(), p.drops)

    def _fraction(self) -> float:
        config, p = self.config, self.progress
        by_steps = p.step / config.steps if config.steps else 0.0
        by_time = p.seconds / (60 * config.minutes) if config.minutes else 0.0
        return max(by_steps, by_time)

    def _finished(self) -> bool:
        return self._fraction() >= 1.0

    def _report(self, figures: dict[str, float], log: Log | None, report: Report | None) -> None:
        p = self.progress
        p.fraction = self._fraction()
        lr = self.config.optimizer.lr * self._factor()
        figures = {**figures, "lr": lr, "words": p.words, "seconds": round(p.seconds, 3)}
        if log is not None:
            log.write(p.step, figures)
        if report is not None and self.world.first:
            report(p, figures)

    def _validation_due(self, checkpoint_due: bool) -> bool:
        every = self.config.valid_steps
        if every is not None:
            return self.progress.step % every == 0 or self._finished()
        return checkpoint_due or self._finished()

    def _validate(self, log: Log | None, report: Report | None) -> bool:
        """Returns whether it is the best so far, and so must be kept."""
        self.objective.module.eval()
        figures = self.objective.validate()
        self.objective.module.train()
        if not figures:
            return False
        self._report({f"valid_{name}": value for name, value in figures.items()}, log, report)
        progress = self.progress
        score = self.world.mean(next(iter(figures.values())), self.device)
        if progress.best is None or score < progress.best:
            progress.best, progress.best_step = score, progress.step
            return True
        if isinstance(self.config.schedule, PlateauSchedule):
            progress.drops += 1
        return False

    # Checkpoints -------------------------------------------------------------------------------

    def save(self) -> None:
        """`checkpoints/step-N`, there whole or not at all; then old ones go."""
        states = self.world.gather(self.objective.state())
        if self.world.first:
            target = self.folder / CHECKPOINTS / _name(self.progress.step)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                with atomic_folder(target) as beside:
                    self.objective.save(beside)
                    # through a file of Python's, whose errors are told: torch hides a full disk
                    with (beside / _TRAINING).open("wb") as file:
                        torch.save(self._training_state(states), file)
            self._name_best()
            self._prune()
        self.world.wait()

    def _training_state(self, states: list[Any]) -> dict[str, Any]:
        progress = asdict(self.progress)
        del progress["fraction"], progress["interrupted"]
        return {
            "progress": progress,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "data": states,
        }

    def _name_best(self) -> None:
        if self.progress.best_step is not None:
            with atomic_file(self.folder / "best") as path:
                path.write_text(f"{_name(self.progress.best_step)}\n", encoding="utf-8")

    def _prune(self) -> None:
        best = self.folder / "best"
        keep = {best.read_text(encoding="utf-8").strip()} if best.exists() else set()
        for old in checkpoints(self.folder)[: -self.config.keep]:
            if old.name not in keep:
                shutil.rmtree(old)

    def resume(self) -> None:
        """Everything but the model itself, whose weights the caller has read already."""
        newest = checkpoints(self.folder)[-1]
        state = _read_training(newest / _TRAINING)
        if len(state["data"]) != self.world.size:
            raise ConfigError(
                f"{newest}: written by {len(state['data'])} processes, resumed by "
                f"{self.world.size}; an exact resume needs the same number."
            )
        self.progress = Progress(**state["progress"])
        if self.world.first:
            self._name_best()  # a kill may have come between the checkpoint and its name
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.objective.restore(state["data"][self.world.rank])


def _name(step: int) -> str:
    return f"step-{step:09d}"


def checkpoints(folder: Path) -> list[Path]:
    """The finished ones, oldest first."""
    return sorted((folder / CHECKPOINTS).glob("step-*"))


def _read_training(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FormatError(f"{path}: missing, so this cannot be resumed, only read.") from None
    except Exception as error:  # torch.load fails in as many ways as a file can be damaged
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(
            f"{path}: not a readable training state ({first}). Remove {path.parent} to resume from "
            "the checkpoint before it."
        ) from None
    return state


def _seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0] >> 1)


def _means(tally: dict[str, float]) -> dict[str, float]:
    """Sums over predictions become means; the norm is the last step's."""
    n = tally["count"]
    return {k: v if k == "norm" else v / n for k, v in tally.items() if k not in ("count", "stop")}


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run after the step under way, and a second one at once. The list
    fills when one comes."""
    caught: list[int] = []
    before = {}

    def note(number: int, _: object) -> None:
        if caught:
            raise KeyboardInterrupt(number)
        caught.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            before[number] = signal.signal(number, note)
        except ValueError:  # not the main thread: whoever owns it handles signals
            break
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
