"""Fine-tuning a language model as ULMFiT does: each layer at its own rate, unfrozen from the top,
on a slanted triangular schedule. `tuning.py` asks for what is here; settings are `encoder.lm.…`.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from elmore.errors import ConfigError
from elmore.tasks.classification import Classification
from elmore.tasks.encoded import Dims
from elmore.tasks.encoders.names import parts_of
from elmore.tasks.pooled_head import PooledHead
from elmore.tasks.recipes import FitConfig
from elmore.tasks.task import Head, Labels, Task
from elmore.tasks.tuned_task import TunedTask, by_epochs
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig, Group


def task_of(config: FitConfig) -> Task[Any, Any, Any]:
    """One label for one text."""
    n_models = len(parts_of(config.encoder.source))

    def labels(state: Labels, dims: Dims) -> Head[Any, Any]:
        return PooledHead(state.labels, dims, config.encoder.lm, n_models)

    match config.task:
        case Classification() as task:
            return TunedTask(task, lambda e: e.words, labels)
        case task:
            raise ConfigError(
                f"encoder {config.encoder.source!r}: a language model is fine-tuned so for labels "
                f"of single texts, not for {task.kind}; leave out 'lm:' to tune it below the "
                "task's own model."
            )


def as_trained(config: FitConfig, dims: Dims) -> FitConfig:
    """With the settings of `encoder.lm` in the place of a task's own."""
    del dims
    names = ("lr", "epochs", "batch", "weight_decay", "clip")
    return config.model_copy(update={name: getattr(config.encoder.lm, name) for name in names})


def groups(config: FitConfig, floors: Sequence[Sequence[nn.Parameter]]) -> list[Group]:
    """The head has the whole rate, and every floor below it less."""
    rate = config.encoder.lm.floor_rate
    return [Group(floor, rate=rate**depth) for depth, floor in enumerate(floors, start=1)]


def loop(config: FitConfig, n_batches: int) -> LoopConfig:
    lm = config.encoder.lm
    adam = AdamWConfig(lr=config.lr, betas=lm.betas, weight_decay=config.weight_decay)
    return by_epochs(config, n_batches, adam, lm.schedule)
