"""The one training loop, for pretraining and for tasks: gradients summed over micro-batches and
processes, clipped, applied; it ends by steps, minutes, patience or a signal.

The objective says what is learned, the recorder what is written to disk. The objective seeds the
random numbers of each step, so that no state of a generator needs to be saved.
"""

import math
import signal
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import ConfigError, InputError
from elmore.files.stop_signals import StopSignals
from elmore.train.clock import Clock
from elmore.train.optimizer import AdagradConfig, Group, OptimizerConfig, build_optimizers
from elmore.train.schedule import ConstantSchedule, PlateauSchedule, Schedule
from elmore.train.world import World


class LoopConfig(Frozen):
    """How long, how fast, how often. A run needs at least one of steps and minutes."""

    model_config = ConfigDict(allow_inf_nan=False)

    steps: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    """Training time, summed over resumed runs."""
    patience: int | None = Field(default=None, ge=1)
    """The run ends after this many validations in a row without improvement; null: never."""
    optimizer: OptimizerConfig = AdagradConfig()
    schedule: Schedule = ConstantSchedule()
    clip: float | None = Field(default=10.0, gt=0)
    """Global norm of the gradient; null for none."""
    loss_scale: float | None = Field(default=1.0, gt=0)
    """The gradient is that of the mean loss times this; bilm-tf multiplies by its unroll steps.
    null: the objective's losses are means already and are left as they are."""
    accumulate: int = Field(default=1, ge=1)
    seed: int = Field(default=1, ge=0, lt=2**63)
    log_steps: int = Field(default=20, ge=1)
    checkpoint_minutes: float | None = Field(default=5.0, gt=0)
    """null: a checkpoint after every validation only, and Ctrl-C stops at once."""
    valid_steps: int | None = Field(default=None, ge=1)
    """Steps between validations; null: with every checkpoint."""
    keep: int = Field(default=2, ge=1)
    """Number of newest checkpoints to keep; the best by validation is always kept."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Summed over `count` predictions; `parts` are sums to be reported as means. The total needs a
    gradient unless the objective changes its weights itself, in place."""

    total: Tensor
    count: int
    parts: dict[str, float] = field(default_factory=dict)


class Objective(Protocol):
    """What is trained. The loop asks it for losses, and for the state to save."""

    module: nn.Module
    higher_is_better: bool
    """Of the first figure of `validate`."""

    def groups(self) -> list[Group]:
        """All parameters that are trained at some time, also those that are frozen now."""

    def begin(self, step: int, done: float) -> None:
        """Before the losses of a step (from 1), with the share of the run that is done: seed torch,
        unfreeze layers."""

    def next_loss(self, rng: np.random.Generator) -> Loss: ...
    def validate(self) -> dict[str, float]:
        """Figures of held-out data, the one that decides first; empty without such data."""

    def state(self) -> Any:
        """The position in the data, in plain types and tensors."""

    def restore(self, state: Any) -> None: ...
    def save(self, folder: Path) -> None:
        """The model, in the form its users load."""


@dataclass(slots=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    seconds: float = 0.0
    words: int = 0
    best: float | None = None
    best_step: int | None = None
    bad: int = 0
    """Validations since the best."""
    drops: int = 0
    """Of the learning rate, by a plateau schedule."""
    tally: dict[str, float] = field(default_factory=dict)
    """Sums since the last report."""
    fraction: float = 0.0
    """How much of the run is done. This one and the next two are not part of a checkpoint."""
    lr: float = 0.0
    interrupted: int = 0
    """The signal that stopped the run early; 0 for none."""


class Recorder(Protocol):
    """Reports the figures of a run, writes and reads its checkpoints. With several processes, only
    the first one reports and saves; all of them resume."""

    def start(self, step: int) -> None:
        """Training begins after this step; log lines of later ones are removed."""

    def report(self, progress: Progress, figures: dict[str, float]) -> None:
        """Means since the last report."""

    def validated(self, progress: Progress, figures: dict[str, float]) -> None: ...
    def save(self, loop: "Loop", states: list[Any]) -> None:
        """A checkpoint, written atomically; `states` are those of the objective, by rank."""

    def resume(self, loop: "Loop") -> Progress:
        """Restore objective and optimizers from the newest checkpoint."""

    def diverged(self, step: int) -> str:
        """The error message when the gradient of a step is NaN or infinite."""

    def close(self) -> None: ...


class Loop:
    """Trains an objective to its end; after `resume`, from the newest checkpoint."""

    def __init__(self, objective: Objective, config: LoopConfig, recorder: Recorder, world: World):
        if config.steps is None and config.minutes is None:
            raise ConfigError("Neither steps, epochs nor minutes are set: the run would not end.")
        self.objective, self.config = objective, config
        self.recorder, self.world = recorder, world
        self.optimizers = build_optimizers(config.optimizer, objective.groups())
        self.rates = [[group["lr"] for group in o.param_groups] for o in self.optimizers]
        self.progress = Progress()
        self.parameters = list(objective.module.parameters())
        self.device = self.parameters[0].device

    def resume(self) -> None:
        self.progress = self.recorder.resume(self)

    @property
    def finished(self) -> bool:
        return self._fraction() >= 1.0

    def run(self) -> Progress:
        """Train until the end or a signal, save a last checkpoint, return."""
        try:
            return self._run()
        finally:
            if self.world.first:
                self.recorder.close()

    def _run(self) -> Progress:
        progress, config = self.progress, self.config
        saved = progress.seconds
        if self.world.first:
            self.recorder.start(progress.step)
        # A signal ends the run after the current step, a second one at once; without a checkpoint
        # that could be written after any step, the first one does.
        stop = StopSignals(second_at_once=True)
        held = nullcontext() if config.checkpoint_minutes is None else stop
        with held, Clock(progress.seconds) as clock:
            while not self.finished:
                told = self._step(stop)
                progress.seconds = self._agreed(clock.tick())
                if progress.step % config.log_steps == 0:
                    self._report()
                minutes = config.checkpoint_minutes
                due = minutes is not None and progress.seconds - saved > 60 * minutes
                validated = self._validation_due(due)
                better = validated and self._validate()
                if validated:
                    progress.seconds = self._agreed(clock.tick())
                if told or due or better or self.finished or (validated and minutes is None):
                    self._save()
                    saved = progress.seconds
                if told and not self.finished:
                    progress.interrupted = stop.arrived or signal.SIGTERM
                    break
        progress.fraction = self._fraction()
        return progress

    def _agreed(self, seconds: float) -> float:
        """The same in all processes, because they must make the same decisions."""
        return self.world.mean(seconds, self.device)

    def _step(self, stop: StopSignals) -> bool:
        """One update. Returns whether any process was asked to stop."""
        progress, config = self.progress, self.config
        done = self._fraction()
        progress.step += 1
        self.objective.begin(progress.step, done)
        figures = {"loss": 0.0, "count": 0.0}
        for micro in range(config.accumulate):
            rng = np.random.default_rng((config.seed, progress.step, micro))
            loss = self.objective.next_loss(rng)
            if self.optimizers:
                loss.total.backward()
            found = {"loss": loss.total.item(), "count": loss.count, **loss.parts}
            for name, value in found.items():
                figures[name] = figures.get(name, 0.0) + value
        figures["stop"] = float(stop.arrived is not None)
        figures = dict(
            zip(figures, self.world.sum(list(figures.values()), self.device), strict=True)
        )
        self.world.sum_gradients(self.parameters)
        norm = self._clip(figures["count"])
        if not math.isfinite(norm):
            raise InputError(self.recorder.diverged(progress.step))
        self._apply()
        progress.words += int(figures["count"])
        progress.tally["norm"] = norm
        for name, value in figures.items():
            progress.tally[name] = progress.tally.get(name, 0.0) + value
        return figures["stop"] > 0

    def _clip(self, count: float) -> float:
        """Returns the norm of the gradient before it is clipped."""
        scale, clip = self.config.loss_scale, self.config.clip
        if scale is None:
            limit = math.inf if clip is None else clip
            return float(nn.utils.clip_grad_norm_(self.parameters, limit))
        return scale_gradients(self.parameters, scale / count, clip)

    def _apply(self) -> None:
        factor = self._factor()
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    @property
    def lr(self) -> float:
        """The learning rate at this point of the schedule, of a group whose rate is 1."""
        return self.config.optimizer.lr * self._factor()

    def _factor(self) -> float:
        p = self.progress
        return self.config.schedule.factor(p.step, self._fraction(), p.drops)

    def _fraction(self) -> float:
        config, p = self.config, self.progress
        if config.patience is not None and p.bad >= config.patience:
            return 1.0
        by_steps = p.step / config.steps if config.steps else 0.0
        by_time = p.seconds / (60 * config.minutes) if config.minutes else 0.0
        return max(by_steps, by_time)

    def _report(self) -> None:
        self._update()
        figures, self.progress.tally = _means(self.progress.tally), {}
        if self.world.first:
            self.recorder.report(self.progress, figures)

    def _update(self) -> None:
        self.progress.fraction = self._fraction()
        self.progress.lr = self.lr

    def _validation_due(self, checkpoint_due: bool) -> bool:
        every = self.config.valid_steps
        if every is not None:
            return self.progress.step % every == 0 or self.finished
        return checkpoint_due or self.finished

    def _validate(self) -> bool:
        """Returns whether it is the best so far, and so must be kept."""
        self.objective.module.eval()
        figures = self.objective.validate()
        self.objective.module.train()
        if not figures:
            return False
        self._update()
        if self.world.first:
            self.recorder.validated(self.progress, figures)
        return self._judge(self.world.mean(next(iter(figures.values())), self.device))

    def _judge(self, score: float) -> bool:
        progress, higher = self.progress, self.objective.higher_is_better
        best = progress.best
        if best is None or (score > best if higher else score < best):
            progress.best, progress.best_step, progress.bad = score, progress.step, 0
            return True
        if higher and not best > 0:  # nothing is learned yet: no reason to slow down or stop
            return False
        progress.bad += 1
        schedule = self.config.schedule
        if isinstance(schedule, PlateauSchedule) and progress.bad % schedule.after == 0:
            progress.drops += 1
        return False

    def _save(self) -> None:
        self.progress.fraction = self._fraction()
        states = self.world.gather(self.objective.state())
        if self.world.first:
            self.recorder.save(self, states)
        self.world.wait()


def scale_gradients(parameters: list[nn.Parameter], scale: float, clip: float | None) -> float:
    """From sum to mean, and clip, in one multiplication. Returns the norm before the clip."""
    grads = []
    for p in parameters:
        if p.grad is not None and p.grad.is_sparse:
            p.grad = p.grad.coalesce()
        if p.grad is not None:
            grads.append(p.grad._values() if p.grad.is_sparse else p.grad)
    if not grads:
        return 0.0
    norm = scale * float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
    if math.isfinite(norm):
        torch._foreach_mul_(
            grads, scale if clip is None else scale * min(1.0, clip / (norm + 1e-6))
        )
    return norm


def seed_step(seed: int, step: int, rank: int) -> None:
    """torch's generator for one step of one process."""
    state = np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0] >> 1))


def _means(tally: dict[str, float]) -> dict[str, float]:
    """Sums over predictions become means; the norm is the last step's."""
    n = tally["count"]
    return {k: v if k == "norm" else v / n for k, v in tally.items() if k not in ("count", "stop")}
