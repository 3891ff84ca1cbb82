"""Fine-tuning a GPT as its paper does: a linear layer on the state at the last mark, all of the
model from the first step on. `tuning.py` asks for what is here; settings are `encoder.gpt.…`.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from elmore.errors import ConfigError
from elmore.tasks.classification import Classification
from elmore.tasks.encoded import Dims
from elmore.tasks.entailment import Entailment
from elmore.tasks.linear_heads import LabelHead
from elmore.tasks.recipes import FitConfig
from elmore.tasks.task import Head, Labels, Task
from elmore.tasks.tuned_task import TunedTask, by_epochs
from elmore.tasks.tuning_bert import default_rate
from elmore.text.reader import Pair
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig, Group
from elmore.train.schedule import LinearSchedule

_BASE, _BASE_RATE = 768, 6.25e-5


def task_of(config: FitConfig) -> Task[Any, Any, Any]:
    """One label for a text or a pair."""

    def labels(state: Labels, dims: Dims) -> Head[Any, Any]:
        return LabelHead(state.labels, dims, config.encoder.gpt.dropout)

    match config.task:
        case Classification() as task:
            return TunedTask(task, lambda e: e.words, labels)
        case Entailment() as task:
            return TunedTask(task, lambda e: Pair(e.premise, e.hypothesis), labels)
        case task:
            raise ConfigError(
                f"encoder {config.encoder.source!r}: a GPT is fine-tuned so for labels of texts "
                f"and pairs, not for {task.kind}; leave out 'gpt:' to tune it below the task's own "
                "model."
            )


def as_trained(config: FitConfig, dims: Dims) -> FitConfig:
    """With the settings of `encoder.gpt` in the place of a task's own."""
    gpt = config.encoder.gpt
    by_width = _BASE_RATE if dims.pooled >= _BASE else default_rate(dims.pooled)
    names = ("epochs", "batch", "weight_decay", "clip")
    own = {name: getattr(gpt, name) for name in names}
    return config.model_copy(update={**own, "lr": by_width if gpt.lr is None else gpt.lr})


def groups(config: FitConfig, floors: Sequence[Sequence[nn.Parameter]]) -> list[Group]:
    """All at one rate."""
    del config
    return [Group(floor) for floor in floors]


def loop(config: FitConfig, n_batches: int) -> LoopConfig:
    adam = AdamWConfig(lr=config.lr, weight_decay=config.weight_decay)
    schedule = LinearSchedule(warmup=config.encoder.gpt.warmup)
    return by_epochs(config, n_batches, adam, schedule)
