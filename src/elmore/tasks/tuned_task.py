"""What all ways of fine-tuning share: a task whose model is a pretrained one with a small head, and
training by whole epochs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmore.tasks.encoded import Dims, Input
from elmore.tasks.recipes import FitConfig
from elmore.tasks.task import Corpus, Head, Labels, Score, Task
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import Schedule


@dataclass(frozen=True, slots=True)
class TunedTask:
    """A task on a fine-tuned model: other inputs, another head, and all else is the task's own."""

    own: Task[Any, Any, Any]
    reads: Callable[[Any], Input]
    """An example as the one input that the model reads."""
    build: Callable[[Labels, Dims], Head[Any, Any]]

    @property
    def kind(self) -> str:
        return self.own.kind

    @property
    def share_inputs(self) -> bool:
        return False

    def read(self, path: Path, *, training: bool = False) -> Corpus[Any]:
        return self.own.read(path, training=training)

    def read_plain(self, path: Path) -> Corpus[Any]:
        return self.own.read_plain(path)

    def inputs(self, example: Any) -> Sequence[Input]:
        return (self.reads(example),)

    def start(self, examples: Sequence[Any]) -> Labels:
        found: Labels = self.own.start(examples)
        return found

    def head(self, state: Labels, dims: Dims) -> Head[Any, Any]:
        return self.build(state, dims)

    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Score:
        return self.own.score(examples, predictions)

    def shown(self, example: Any, prediction: Any) -> dict[str, Any]:
        return self.own.shown(example, prediction)


def by_epochs(
    config: FitConfig,
    n_batches: int,
    optimizer: AdamWConfig,
    schedule: Schedule,
    patience: int | None = None,
) -> LoopConfig:
    """Steps are batches; each epoch ends with a validation and a checkpoint."""
    return LoopConfig(
        steps=config.epochs * n_batches,
        patience=patience,
        optimizer=optimizer,
        schedule=schedule,
        clip=config.clip,
        loss_scale=None,
        seed=config.seed,
        log_steps=1,
        checkpoint_minutes=None,
        valid_steps=n_batches,
    )
