"""A task's side of the training loop: what is learned from which examples, and how it is scored."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from elmore.checkpoint.native import save_tensors
from elmore.tasks.fit_config import FitConfig
from elmore.tasks.length_batches import training_batches
from elmore.tasks.model import TaskModel
from elmore.tasks.saved import MODEL
from elmore.tasks.task import Score
from elmore.train.loop import Loss
from elmore.train.optimizer import Group


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
        """The task's own parameters, the mixes' at a higher rate, a fine-tuned model's at a
        smaller one."""
        encoder, config = self.model.encoder, self.config.encoder
        tuned = encoder.tuned()
        shares = [mix.scalars for mix in encoder.scalar_mixes()]
        apart = {id(parameter) for parameter in [*tuned, *shares]}
        own = [p for p in self.model.parameters() if id(p) not in apart]
        return [
            Group(own),
            *([Group(shares, rate=config.mix_rate, decay=False)] if shares else []),
            *([Group(tuned, rate=config.fine_tune_rate, decay=False)] if tuned else []),
        ]

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
        return Loss(self.model.loss(examples), 1)

    def validate(self) -> dict[str, float]:
        self.score = self.model.evaluate(self.dev)
        return self.score.figures

    def state(self) -> None:
        return None

    def restore(self, state: Any) -> None:
        del state

    def save(self, folder: Path) -> None:
        save_tensors(self.model.state_dict(), folder / MODEL)
