"""Training a task's model: the dev set is scored after each epoch, and the best epoch is kept. The
learning rate is halved when nothing improves, and after some more such epochs training ends; or it
falls along a cosine. A model that is fine-tuned as its paper does is trained in another way: see
`tuning.py`.
"""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmore.embedder import find_device
from elmore.errors import InputError
from elmore.files.atomic import sweep, writing
from elmore.files.checked import write_checked
from elmore.files.lock import Lock
from elmore.tasks.encoders.encoder import Encoder, build_encoder
from elmore.tasks.encoders.source import own_words
from elmore.tasks.model import TaskModel, check_pretrained, load_weights, nothing_right
from elmore.tasks.objective import RATE_DROP, EpochRecorder, Report, TaskObjective
from elmore.tasks.objective import EpochReport as EpochReport
from elmore.tasks.recipes import FitConfig as FitConfig
from elmore.tasks.saved import CHECKPOINTS, CONFIG, SavedTask, best_epoch, epochs, read_saved
from elmore.tasks.task import Score, Task, all_inputs
from elmore.tasks.tuned_task import by_epochs
from elmore.tasks.tuning import as_trained, fine_tuning, task_of, with_used_settings
from elmore.train.loop import Loop, LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import CosineSchedule, PlateauSchedule
from elmore.train.world import World

_FEWEST = 20  # of fewer examples, many may be equal by chance


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
    is_new = not output.exists()
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    with Lock(output):
        for folder in (output, output / CHECKPOINTS):
            sweep(folder)
        try:
            return _fit(config, train, dev, output, cache, resume, report, device)
        finally:
            if is_new and not (output / CONFIG).exists():
                shutil.rmtree(output, ignore_errors=True)


def _fit(
    config: FitConfig,
    train: Sequence[Any],
    dev: Sequence[Any],
    output: Path,
    cache: Path | None,
    resume: bool,
    report: Report | None,
    device: str,
) -> Fitted:
    torch.manual_seed(config.seed)  # the weights that training begins with
    config = with_used_settings(config)
    way, task = fine_tuning(config.encoder), task_of(config)
    own = config.encoder.own if way is None else None
    words = () if own is None else own_words(own, all_inputs(task, train))
    saved = SavedTask(
        fit=config, state=task.start(train), words=words, fingerprints=(),
        data=_digest([*train, None, *dev]),
    )  # fmt: skip
    going_on = _is_begun(output, saved, resume)
    encoder = build_encoder(config.encoder, words, cache=cache)
    pretrained = _sums(encoder)
    model = TaskModel(task, encoder, saved.state).to(find_device(device))
    if going_on:
        check_pretrained(encoder, read_saved(output), output)
    else:
        saved = saved.model_copy(update={"fingerprints": encoder.fingerprints()})
        write_checked(output / CONFIG, saved)
    model.head.prepare(train)
    plan = as_trained(config, encoder.dims)
    objective = TaskObjective(plan, model, train, dev)
    recorder = EpochRecorder(output, objective, report)
    how = _loop if way is None else way.loop
    loop = Loop(objective, how(plan, objective.n_batches), recorder, World(alone=True))
    if going_on and epochs(output):
        loop.resume()
    asked = all_inputs(task, [*train, *dev])
    if not loop.finished:
        encoder.prepare(asked)
        loop.run()
    last = recorder.last
    load_weights(model, best_epoch(output)).eval()
    score = Score(last.figures)
    about_dev = (*model.unseen(dev), *overlap(task, train, dev), *nothing_right(score))
    notes = [*encoder.notes(asked), *encoder.unread(asked), *model.head.notes([*train, *dev])]
    notes += [f"dev: {n}" for n in about_dev]
    if pretrained and pretrained == _sums(encoder):
        notes.append(
            f"fine-tuning has changed nothing in {config.encoder.source}: the first epoch trains "
            f"the task alone, and epoch {last.best_epoch} of {last.epoch} is the best"
        )
    return Fitted(model, score, last.best_epoch, last.epoch, last.seconds, tuple(notes))


def _sums(encoder: Encoder) -> list[float]:
    """They tell whether fine-tuned weights have changed."""
    return [p.detach().double().abs().sum().item() for floor in encoder.tuned() for p in floor]


def overlap(task: Task[Any, Any, Any], train: Sequence[Any], other: Sequence[Any]) -> list[str]:
    """A note if half or more of some examples are training examples."""
    seen = {tuple(task.inputs(example)) for example in train}
    n = sum(tuple(task.inputs(example)) in seen for example in other)
    note = f"{n:,} of {len(other):,} examples are training examples too: the score is too good"
    return [note] if len(other) >= _FEWEST and 2 * n >= len(other) else []


def _loop(config: FitConfig, n_batches: int) -> LoopConfig:
    adam = AdamWConfig(lr=config.lr, weight_decay=config.weight_decay)
    warmup, after = config.warmup_steps, config.halve_after
    if config.cosine:
        return by_epochs(config, n_batches, adam, CosineSchedule(warmup=warmup))
    schedule = PlateauSchedule(warmup=warmup, drop=RATE_DROP, after=after)
    return by_epochs(config, n_batches, adam, schedule, config.patience)


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
