"""Fine-tuning BERT as its paper does: a single linear layer as the head, two texts read as one
pair, and how it is trained. `tuning.py` asks for what is here.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from elmore.errors import ConfigError
from elmore.tasks.classification import Classification
from elmore.tasks.coreference import Coreference
from elmore.tasks.encoded import Dims
from elmore.tasks.entailment import Entailment
from elmore.tasks.generation import Translate
from elmore.tasks.linear_heads import LabelHead, SpanHead, TagHead
from elmore.tasks.question_answering import QuestionAnswering
from elmore.tasks.recipes import FitConfig
from elmore.tasks.semantic_roles import SemanticRoles
from elmore.tasks.tagging import Tagging
from elmore.tasks.task import Head, Labels, Task
from elmore.tasks.tuned_task import TunedTask, by_epochs
from elmore.text.reader import Pair
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig, Group
from elmore.train.schedule import LinearSchedule

_EPS = 1e-6  # of AdamW, as in BERT's own


def task_of(config: FitConfig) -> Task[Any, Any, Any]:
    """With a linear head."""
    dropout = config.tuning.dropout

    def labels(state: Labels, dims: Dims) -> Head[Any, Any]:
        return LabelHead(state.labels, dims, dropout)

    def tags(state: Labels, dims: Dims) -> Head[Any, Any]:
        return TagHead(state.labels, dims, dropout)

    match config.task:
        case Tagging() as task:
            return TunedTask(task, lambda e: e.words, tags)
        case Classification() as task:
            return TunedTask(task, lambda e: e.words, labels)
        case Entailment() as task:
            return TunedTask(task, lambda e: Pair(e.premise, e.hypothesis), labels)
        case QuestionAnswering(max_answer_words=most) as task:
            question_first = lambda e: Pair(e.words, e.paragraph.words)  # noqa: E731
            return TunedTask(task, question_first, lambda _, dims: SpanHead(dims, most))
        case SemanticRoles() | Coreference() as task:
            raise ConfigError(
                f"encoder {config.encoder.source!r}: {task.kind} has no linear head for a "
                "fine-tuned BERT; use it frozen, or leave out 'bert:' to tune it below the task's "
                "own model."
            )
        case Translate(kind=kind):
            raise ConfigError(
                f"{kind}: a BERT is read here, not fine-tuned; leave out +tune and --fine-tune."
            )


def default_rate(dim: int) -> float:
    """A good learning rate by the width of a BERT: 5e-5 for base sizes, more for smaller ones."""
    if dim >= 768:
        return 5e-5
    return 1e-4 if dim > 256 else 3e-4


def as_trained(config: FitConfig, dims: Dims) -> FitConfig:
    """With the settings of `tuning` in the place of a task's own."""
    tuning = config.tuning
    return config.model_copy(
        update={
            "lr": default_rate(dims.vectors) if tuning.lr is None else tuning.lr,
            "epochs": tuning.epochs,
            "batch": tuning.batch,
            "weight_decay": tuning.weight_decay,
            "clip": tuning.clip,
        }
    )


def groups(config: FitConfig, floors: Sequence[Sequence[nn.Parameter]]) -> list[Group]:
    """A rate for each floor; the top one has that of the head."""
    rate = config.tuning.floor_rate
    return [Group(floor, rate=rate**depth) for depth, floor in enumerate(floors)]


def loop(config: FitConfig, n_batches: int) -> LoopConfig:
    """Up and down in straight lines; every epoch is trained, whatever the dev scores."""
    adam = AdamWConfig(lr=config.lr, weight_decay=config.weight_decay, eps=_EPS)
    return by_epochs(config, n_batches, adam, LinearSchedule(warmup=config.tuning.warmup))
