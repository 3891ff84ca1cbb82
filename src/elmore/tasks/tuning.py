"""The joint of fine-tuning. A model that is named by its kind (`bert:DIR+tune`, `lm:DIR+tune`,
`gpt:DIR+tune`) is trained as the paper of that kind does; each kind has a file that offers what
`FineTuning` lists. All other encoders are trained below the task's own model.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import nn

from elmore.tasks import tuning_bert, tuning_gpt, tuning_lm
from elmore.tasks.encoded import Dims
from elmore.tasks.encoders.encoder import Encoder, EncoderConfig
from elmore.tasks.encoders.tuned_gpt import GPTTuningConfig
from elmore.tasks.encoders.tuned_lm import LMTuningConfig
from elmore.tasks.recipes import FitConfig, TuningConfig
from elmore.tasks.task import Task
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import Group


class FineTuning(Protocol):
    """What a kind of model says of its fine-tuning."""

    def task_of(self, config: FitConfig) -> Task[Any, Any, Any]:
        """The task with the head of the paper; refuses tasks that it has none for."""

    def as_trained(self, config: FitConfig, dims: Dims) -> FitConfig:
        """With its own settings in the place of a task's: lr, epochs, batch, weight_decay, clip."""

    def groups(self, config: FitConfig, floors: Sequence[Sequence[nn.Parameter]]) -> list[Group]:
        """The model's weights with their rates; `floors` are from the top."""

    def loop(self, config: FitConfig, n_batches: int) -> LoopConfig:
        """How long, and by which schedule; an epoch has `n_batches` steps."""


def fine_tuning(encoder: EncoderConfig) -> FineTuning | None:
    """None where the task's own model is trained."""
    match encoder.tunes:
        case "bert":
            return tuning_bert
        case "lm":
            return tuning_lm
        case "gpt":
            return tuning_gpt
        case None:
            return None


def task_of(config: FitConfig) -> Task[Any, Any, Any]:
    """What is trained: the task with its own head, or with that of a fine-tuned model."""
    way = fine_tuning(config.encoder)
    return config.task if way is None else way.task_of(config)


def as_trained(config: FitConfig, dims: Dims) -> FitConfig:
    way = fine_tuning(config.encoder)
    return config if way is None else way.as_trained(config, dims)


def with_used_settings(config: FitConfig) -> FitConfig:
    """Settings of fine-tuning that are of no use here are as if they had not been given."""
    if config.encoder.tunes != "bert":
        config = config.model_copy(update={"tuning": TuningConfig()})
    unused = {"lm": LMTuningConfig(), "gpt": GPTTuningConfig()}
    unused.pop(config.encoder.tunes or "", None)
    encoder = config.encoder.model_copy(update=unused)
    return config.model_copy(update={"encoder": encoder})


def tuned_groups(config: FitConfig, encoder: Encoder) -> list[Group]:
    """A model below the task's own is trained at one rate, and does not decay."""
    way = fine_tuning(config.encoder)
    if way is not None:
        return [g for source in encoder.sources for g in way.groups(config, source.tuned())]
    tuned = [parameter for floor in encoder.tuned() for parameter in floor]
    return [Group(tuned, rate=config.encoder.fine_tune_rate, decay=False)] if tuned else []
