"""Training a task's model an epoch at a time: the dev set is scored after each, the best epoch is
kept, the learning rate halves when nothing improves, and then it ends. Everything random in an
epoch comes from (seed, epoch), so a run that was killed goes on to the same numbers.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.batches import training_batches
from elmore.tasks.config import FitConfig as FitConfig
from elmore.tasks.encoded import Input
from elmore.tasks.encoders.encoder import own_words
from elmore.tasks.model import TaskModel, build_model, check_pretrained, find_device, load_weights
from elmore.tasks.saved import (
    CONFIG,
    TRAINING,
    Progress,
    SavedTask,
    best_epoch,
    epochs,
    name_best,
    read_progress,
    read_saved,
    read_tensors,
    write_epoch,
    write_saved,
)
from elmore.tasks.task import Score
from elmore.train.log import Log

Report = Callable[["EpochReport"], None]


@dataclass(frozen=True, slots=True)
class EpochReport:
    """Told after every batch, and at an epoch's end with its dev score."""

    epoch: int
    """From 1."""
    fraction: float
    """Of the epoch that is done."""
    loss: float
    """The mean so far."""
    dev: Score | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished training; the model has the weights of its best epoch."""

    model: TaskModel
    dev: Score
    best_epoch: int
    epochs: int
    seconds: float
    """Of training and dev scores; without the embedding of the corpus."""
    notes: tuple[str, ...] = ()
    """What should be known about the examples."""

    @property
    def n_trained(self) -> int:
        """Parameters."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def n_frozen(self) -> int | None:
        return self.model.encoder.n_frozen


def fit(
    config: FitConfig,
    train: Sequence[Any],
    dev: Sequence[Any],
    output: Path,
    *,
    cache: Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    device: str = "auto",
) -> Fitted:
    """Examples come from `config.task.read(…)`. With `resume` a run goes on from its last epoch;
    a finished one is only loaded."""
    for name, examples in (("train", train), ("dev", dev)):
        if not examples:
            raise InputError(f"There are no {name} examples; expected one at least.")
    torch.manual_seed(config.seed)  # the weights that training begins with
    words = own_words(config.encoder, _inputs(config, train))
    saved = SavedTask(
        fit=config, state=config.task.start(train), words=words, fingerprints=(),
        data=_digest([*train, None, *dev]),
    )  # fmt: skip
    going_on = _is_begun(output, saved, resume)
    model = build_model(saved, cache=cache).to(find_device(device))
    if going_on:
        check_pretrained(model, read_saved(output), output)
    else:
        fingerprints = model.encoder.fingerprints()
        write_saved(saved.model_copy(update={"fingerprints": fingerprints}), output)
    training = _Training(config, model, output, report)
    if going_on and epochs(output):
        training.resume()
    asked = _inputs(config, [*train, *dev])
    if not training.progress.finished:
        model.encoder.prepare(asked)
        training.run(train, dev)
    progress = training.progress
    load_weights(model, best_epoch(output)).eval()
    return Fitted(
        model, Score(progress.figures), progress.best_epoch, progress.epoch, progress.seconds,
        (*model.encoder.notes(asked), *(f"dev: {note}" for note in model.unseen(dev))),
    )  # fmt: skip


class _Training:
    """The epochs of one run."""

    def __init__(self, config: FitConfig, model: TaskModel, output: Path, report: Report | None):
        self.config, self.model, self.output = config, model, output
        self.report = report or (lambda _: None)
        self.progress = Progress()
        self.optimizer = torch.optim.AdamW(_groups(config, model), lr=config.lr, fused=True)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def run(self, train: Sequence[Any], dev: Sequence[Any]) -> None:
        log = Log(self.output, self.progress.epoch)
        lengths = [self.model.length(example) for example in train]
        while not self.progress.finished:
            started = time.monotonic()
            loss = self._epoch(train, lengths)
            score = self.model.evaluate(dev)
            self._judge(score, time.monotonic() - started)
            write_epoch(
                self.output, self.progress, self.model.state_dict(), self._optimizer_state()
            )
            figures = {f"dev_{name}": value for name, value in score.figures.items()}
            lr = self.config.lr * self.progress.rate
            seconds = round(self.progress.seconds, 3)
            log.write(
                self.progress.epoch, {"loss": loss, **figures, "next_lr": lr, "seconds": seconds}
            )
            self.report(EpochReport(self.progress.epoch, 1.0, loss, score))
        log.close()

    def _epoch(self, train: Sequence[Any], lengths: Sequence[int]) -> float:
        """One pass; the mean loss."""
        self.progress.epoch += 1
        epoch = self.progress.epoch
        rng = np.random.default_rng((self.config.seed, epoch))
        torch.manual_seed(int(rng.integers(2**62)))
        self._set_rates()
        self.model.encoder.begin_epoch(epoch)
        self.model.train()
        batches, total = training_batches(lengths, self.config.batch, rng), 0.0
        for number, batch in enumerate(batches, start=1):
            loss = self.model.loss([train[i] for i in batch])
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._step()
            total += loss.item()
            self.report(EpochReport(epoch, number / len(batches), total / number))
        return total / len(batches)

    def _step(self) -> None:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        if not torch.isfinite(norm):
            raise InputError(
                f"Epoch {self.progress.epoch}: the gradient is not a number; train again with a "
                "lower learning rate (lr)."
            )
        self.optimizer.step()

    def _set_rates(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.progress.rate

    def _judge(self, score: Score, seconds: float) -> None:
        """Is it the best, is it time to slow down, is it time to stop?"""
        progress, config = self.progress, self.config
        progress.seconds += seconds
        best = next(iter(progress.figures.values()), 0.0)
        if not progress.figures or score.main > best:
            progress.best_epoch, progress.figures, progress.bad = progress.epoch, score.figures, 0
        elif best > 0:  # else nothing is learnt yet: no reason to slow down
            progress.bad += 1
            if progress.bad % config.halve_after == 0:
                progress.rate /= 2
        progress.finished = progress.epoch >= config.epochs or progress.bad >= config.patience

    # Going on ----------------------------------------------------------------------------------

    def resume(self) -> None:
        last = epochs(self.output)[-1]
        self.progress = read_progress(last)
        name_best(self.output, self.progress)  # a kill may have come between the two
        if not self.progress.finished:
            load_weights(self.model, last)
            self._restore_optimizer(read_tensors(last / TRAINING))

    def _optimizer_state(self) -> dict[str, Tensor]:
        """What AdamW remembers of each parameter, by the parameter's name."""
        return {
            f"{name} {key}": value
            for name, parameter in self.model.named_parameters()
            for key, value in self.optimizer.state.get(parameter, {}).items()
        }

    def _restore_optimizer(self, tensors: dict[str, Tensor]) -> None:
        parameters = dict(self.model.named_parameters())
        for name, value in tensors.items():
            parameter, key = name.split(" ")
            known = parameters[parameter]
            device = value.device if key == "step" else known.device
            self.optimizer.state[known][key] = value.to(device)


def _groups(config: FitConfig, model: TaskModel) -> list[dict[str, Any]]:
    """The task's own parameters, the mixes' at a higher rate, a fine-tuned biLM's at a smaller."""
    tuned = model.encoder.tuned()
    shares = [mix.scalars for mix in model.encoder.scalar_mixes()]
    apart = {id(parameter) for parameter in [*tuned, *shares]}
    own = [parameter for parameter in model.parameters() if id(parameter) not in apart]
    matrices = [parameter for parameter in own if parameter.dim() > 1]
    others = [parameter for parameter in own if parameter.dim() <= 1]
    slow = config.lr * config.encoder.fine_tune_rate
    fast = config.lr * config.encoder.mix_rate
    return [
        {"params": matrices, "lr": config.lr, "weight_decay": config.weight_decay},
        {"params": others, "lr": config.lr, "weight_decay": 0.0},
        *([{"params": shares, "lr": fast, "weight_decay": 0.0}] if shares else []),
        *([{"params": tuned, "lr": slow, "weight_decay": 0.0}] if tuned else []),
    ]


def _inputs(config: FitConfig, examples: Iterable[Any]) -> list[Input]:
    return [item for example in examples for item in config.task.inputs(example)]


def _digest(examples: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_begun(output: Path, saved: SavedTask, resume: bool) -> bool:
    """Whether there is a run to go on with; it must be the same one."""
    if not (output / CONFIG).exists():
        if epochs(output):
            raise InputError(f"{output} holds epochs of a run without its {CONFIG}; remove it.")
        return False
    if not resume:
        raise InputError(f"{output} holds a run already; resume it, or remove it.")
    before = read_saved(output)
    if before.model_copy(update={"fingerprints": ()}) != saved:
        same = "settings" if before.data == saved.data else "examples"
        raise InputError(f"{output} holds a run with other {same}; remove it or use another name.")
    return True
