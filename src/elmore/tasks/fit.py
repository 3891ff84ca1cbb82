"""Training a task's model: the dev set is scored after each epoch, and the best epoch is kept. The
learning rate is halved when nothing improves, and after some more such epochs training ends.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmore.embedder import find_device
from elmore.errors import InputError
from elmore.files.atomic import write_text
from elmore.tasks.encoders.source import own_words
from elmore.tasks.model import TaskModel, build_model, check_pretrained, load_weights
from elmore.tasks.objective import RATE_DROP, EpochRecorder, Report, TaskObjective
from elmore.tasks.objective import EpochReport as EpochReport
from elmore.tasks.recipes import FitConfig as FitConfig
from elmore.tasks.saved import CONFIG, SavedTask, best_epoch, epochs, read_saved
from elmore.tasks.task import Score, all_inputs
from elmore.train.loop import Loop, LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import PlateauSchedule
from elmore.train.world import World


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
    words = own_words(config.encoder.own, all_inputs(config.task, train))
    saved = SavedTask(
        fit=config, state=config.task.start(train), words=words, fingerprints=(),
        data=_digest([*train, None, *dev]),
    )  # fmt: skip
    going_on = _is_begun(output, saved, resume)
    model = build_model(saved, cache=cache).to(find_device(device))
    if going_on:
        check_pretrained(model, read_saved(output), output)
    else:
        saved = saved.model_copy(update={"fingerprints": model.encoder.fingerprints()})
        output.mkdir(parents=True, exist_ok=True)
        write_text(output / CONFIG, saved.model_dump_json(indent=1) + "\n")
    objective = TaskObjective(config, model, train, dev)
    recorder = EpochRecorder(output, objective, report)
    loop = Loop(objective, _loop(config, objective.n_batches), recorder, World(alone=True))
    if going_on and epochs(output):
        loop.resume()
    asked = all_inputs(config.task, [*train, *dev])
    if not loop.finished:
        model.encoder.prepare(asked)
        loop.run()
    last = recorder.last
    load_weights(model, best_epoch(output)).eval()
    return Fitted(
        model, Score(last.figures), last.best_epoch, last.epoch, last.seconds,
        (*model.encoder.notes(asked), *(f"dev: {note}" for note in model.unseen(dev))),
    )  # fmt: skip


def _loop(config: FitConfig, n_batches: int) -> LoopConfig:
    """Steps are batches; each epoch ends with a validation and a checkpoint."""
    return LoopConfig(
        steps=config.epochs * n_batches,
        patience=config.patience,
        optimizer=AdamWConfig(lr=config.lr, weight_decay=config.weight_decay),
        schedule=PlateauSchedule(drop=RATE_DROP, after=config.halve_after),
        clip=config.clip,
        loss_scale=None,
        seed=config.seed,
        log_steps=1,
        checkpoint_minutes=None,
        valid_steps=n_batches,
    )


def _digest(examples: Iterable[Any]) -> str:
    """Of their `repr`: if the class of an example or one of its fields is renamed, earlier runs
    cannot be resumed."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_begun(output: Path, saved: SavedTask, resume: bool) -> bool:
    """Whether there is a run to resume; it must have the same settings and examples."""
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
