"""A task's side of the training loop. The objective: what is learned from which examples, and how
it is scored. The recorder: a checkpoint, a line of the log and a report per epoch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.native import save_tensors
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder, discard, sync, write_text
from elmore.files.checked import with_checksum
from elmore.tasks.model import TaskModel, load_weights
from elmore.tasks.recipes import FitConfig
from elmore.tasks.saved import (
    BEST,
    MODEL,
    PROGRESS,
    TRAINING,
    EpochRecord,
    check_digests,
    digests,
    epoch_folder,
    epochs,
    read_record,
    read_tensors,
)
from elmore.tasks.task import Score
from elmore.tasks.tuning import tuned_groups
from elmore.train.log import Log
from elmore.train.loop import Loop, Loss, Progress
from elmore.train.optimizer import Group

RATE_DROP = 0.5
_BUCKET = 32  # batches that are sorted by length together


class TaskObjective:
    """Mean losses of shuffled batches. Everything random in an epoch comes from (seed, epoch), so
    at the end of an epoch there is no state to keep."""

    higher_is_better = True

    def __init__(
        self, config: FitConfig, model: TaskModel, train: Sequence[Any], dev: Sequence[Any]
    ):
        self.module: nn.Module = model
        self.config, self.model, self.train, self.dev = config, model, train, dev
        self.n_batches = -(-len(train) // config.batch)  # in an epoch
        self.score = Score({})
        """Of the dev set, the last time."""
        self._lengths = [model.length(example) for example in train]
        self._batches: Iterator[list[int]] = iter(())

    def groups(self) -> list[Group]:
        """The task's own parameters, the mixes' at a higher rate, and at rates of their own a
        fine-tuned model's and those that the task itself begins with."""
        encoder, config = self.model.encoder, self.config.encoder
        tuned = [*tuned_groups(self.config, encoder), *self.model.head.groups()]
        shares = [mix.scalars for mix in encoder.scalar_mixes()]
        mixes = [Group(shares, rate=config.mix_rate, decay=False)] if shares else []
        apart = {id(parameter) for group in [*mixes, *tuned] for parameter in group.parameters}
        own = [p for p in self.model.parameters() if id(p) not in apart]
        return [Group(own), *mixes, *tuned]

    def begin(self, step: int, done: float) -> None:
        """The first step of an epoch draws the order of its examples."""
        del done
        before, batch = divmod(step - 1, self.n_batches)
        if batch > 0:
            return
        rng = np.random.default_rng((self.config.seed, before + 1))
        torch.manual_seed(int(rng.integers(2**62)))
        self.model.encoder.begin_epoch(before + 1)
        self.model.train()
        self._batches = iter(training_batches(self._lengths, self.config.batch, rng))

    def next_loss(self, rng: np.random.Generator) -> Loss:
        del rng  # the epoch has one of its own
        examples = [self.train[i] for i in next(self._batches)]
        return Loss(self.model.loss(examples, self.config.precision), 1)

    def validate(self) -> dict[str, float]:
        head = self.model.head
        head.quick = True
        try:
            self.score = self.model.evaluate(self.dev)
        finally:
            head.quick = False
        return self.score.figures

    def state(self) -> None:
        return None

    def restore(self, state: Any) -> None:
        del state

    def save(self, folder: Path) -> None:
        save_tensors(self.model.state_dict(), folder / MODEL)


def training_batches(
    lengths: Sequence[int], batch: int, rng: np.random.Generator
) -> list[list[int]]:
    """Every index once, in batches of similar length and in random order."""
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), _BUCKET * batch):
        bucket = order[start : start + _BUCKET * batch]
        by_length = bucket[np.argsort(np.asarray(lengths)[bucket], kind="stable")].tolist()
        batches += [by_length[i : i + batch] for i in range(0, len(by_length), batch)]
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True, slots=True)
class EpochReport:
    """Reported after every batch, and at the end of an epoch with its dev score."""

    epoch: int
    """From 1."""
    fraction: float
    """Of the epoch that is done."""
    loss: float
    """The mean so far."""
    dev: Score | None = None


Report = Callable[[EpochReport], None]


class EpochRecorder:
    """The recorder of trainings that are saved after whole epochs."""

    def __init__(self, folder: Path, objective: TaskObjective, report: Report | None):
        self.folder, self.objective = folder, objective
        self.last = EpochRecord()
        self._tell = report or (lambda _: None)
        self._log: Log | None = None
        self._loss = 0.0  # summed over the batches of this epoch

    def start(self, step: int) -> None:
        self._log = Log(self.folder, step // self.objective.n_batches)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def report(self, progress: Progress, figures: dict[str, float]) -> None:
        before, batch = divmod(progress.step - 1, self.objective.n_batches)
        self._loss = figures["loss"] + (self._loss if batch > 0 else 0.0)
        fraction = (batch + 1) / self.objective.n_batches
        self._tell(EpochReport(before + 1, fraction, self._loss / (batch + 1)))

    def validated(self, progress: Progress, figures: dict[str, float]) -> None:
        """A checkpoint follows: it is told then."""

    def diverged(self, step: int) -> str:
        epoch = (step - 1) // self.objective.n_batches + 1
        return f"Epoch {epoch}: the gradient is NaN or infinite; lower the learning rate (lr)."

    def save(self, loop: Loop, states: list[Any]) -> None:
        """The log, then the checkpoint, then the report. If the run is killed after the log was
        written, resuming removes that line: what a checkpoint has is always in the log."""
        record, score = self._record(loop.progress), self.objective.score
        loss = self._loss / self.objective.n_batches
        if self._log is not None:
            figures = {f"dev_{name}": value for name, value in score.figures.items()}
            rest = {"next_lr": loop.lr, "seconds": round(record.seconds, 3)}
            self._log.write(record.epoch, {"loss": loss, **figures, **rest})
            sync(self._log.path)
        newest = epoch_folder(self.folder, record.epoch)
        newest.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(newest) as beside:
            loop.objective.save(beside)
            if not record.finished:
                save_tensors(self._optimizer_state(loop), beside / TRAINING)
            record.sha256 = digests(beside)
            (beside / PROGRESS).write_text(with_checksum(record), encoding="utf-8")
        self.last = record
        self._tidy()
        self._tell(EpochReport(record.epoch, 1.0, loss, score))

    def _tidy(self) -> None:
        """Name the best epoch; of older checkpoints only that one stays."""
        record = self.last
        newest, best = (epoch_folder(self.folder, n) for n in (record.epoch, record.best_epoch))
        write_text(self.folder / BEST, f"{best.name}\n")
        for old in epochs(self.folder):
            if old not in (newest, best):
                discard(old)
            elif record.finished:
                (old / TRAINING).unlink(missing_ok=True)

    def _record(self, progress: Progress) -> EpochRecord:
        n = self.objective.n_batches
        assert progress.best_step is not None  # the first epoch is the best for a while
        best_now = progress.best_step == progress.step
        return EpochRecord(
            epoch=progress.step // n,
            best_epoch=progress.best_step // n,
            figures=self.objective.score.figures if best_now else self.last.figures,
            bad=progress.bad,
            rate=RATE_DROP**progress.drops,
            seconds=progress.seconds,
            finished=progress.fraction >= 1.0,
        )

    def resume(self, loop: Loop) -> Progress:
        newest, n = epochs(self.folder)[-1], self.objective.n_batches
        record = self.last = read_record(newest)
        check_digests(newest)
        self._tidy()  # it may have been killed in the middle of that
        if not record.finished:
            load_weights(self.objective.model, newest)
            self._restore_optimizer(loop, read_tensors(newest / TRAINING))
        return Progress(
            step=record.epoch * n,
            seconds=record.seconds,
            best=next(iter(record.figures.values())),
            best_step=record.best_epoch * n,
            bad=record.bad,
            drops=round(math.log(record.rate, RATE_DROP)),
        )

    def _optimizer_state(self, loop: Loop) -> dict[str, Tensor]:
        """What AdamW remembers of each parameter, by the parameter's name."""
        (adam,) = loop.optimizers
        return {
            f"{name} {key}": value
            for name, parameter in self.objective.model.named_parameters()
            for key, value in adam.state.get(parameter, {}).items()
        }

    def _restore_optimizer(self, loop: Loop, tensors: dict[str, Tensor]) -> None:
        (adam,) = loop.optimizers
        parameters = dict(self.objective.model.named_parameters())
        for name, value in tensors.items():
            parameter, _, key = name.partition(" ")
            known = parameters.get(parameter)
            if known is None or value.shape != (() if key == "step" else known.shape):
                raise FormatError(f"{self.folder}: {TRAINING} has {name!r}, which does not fit.")
            adam.state[known][key] = value if key == "step" else value.to(known.device)
