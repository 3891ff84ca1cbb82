"""Fine-tuning BERT as its paper does. What differs from a task's own model on pretrained vectors is
all here: a single linear layer as the head, two texts read as one pair, and how it is trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmore.errors import ConfigError
from elmore.tasks.classification import Classification
from elmore.tasks.coreference import Coreference
from elmore.tasks.encoded import Dims, Input
from elmore.tasks.encoders.encoder import Encoder
from elmore.tasks.entailment import Entailment
from elmore.tasks.generation import Translate
from elmore.tasks.linear_heads import LabelHead, SpanHead, TagHead
from elmore.tasks.question_answering import QuestionAnswering
from elmore.tasks.recipes import FitConfig
from elmore.tasks.semantic_roles import SemanticRoles
from elmore.tasks.tagging import Tagging
from elmore.tasks.task import Corpus, Head, Labels, Score, Task
from elmore.text.reader import Pair
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig, Group
from elmore.train.schedule import LinearSchedule

_EPS = 1e-6  # of AdamW, as in BERT's own


@dataclass(frozen=True, slots=True)
class TunedTask:
    """A task on a fine-tuned BERT: other inputs, another head, and all else is the task's own."""

    own: Task[Any, Any, Any]
    reads: Callable[[Any], Input]
    """An example as the one input that BERT reads."""
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


def task_of(config: FitConfig) -> Task[Any, Any, Any]:
    """What is trained: the task with its own head, or with a linear one on a fine-tuned BERT."""
    if not config.encoder.tunes_bert:
        return config.task
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
    return 1e-4 if dim >= 256 else 3e-4


def as_trained(config: FitConfig, dims: Dims) -> FitConfig:
    """With the settings of `tuning` in the place of a task's own, where a BERT is fine-tuned."""
    if not config.encoder.tunes_bert:
        return config
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


def tuned_groups(config: FitConfig, encoder: Encoder) -> list[Group]:
    """A BERT has a rate for each floor; another model trains at one rate, and does not decay."""
    floors = encoder.tuned()
    if config.encoder.tunes_bert:
        rate = config.tuning.floor_rate
        return [Group(floor, rate=rate**depth) for depth, floor in enumerate(floors)]
    tuned = [parameter for floor in floors for parameter in floor]
    return [Group(tuned, rate=config.encoder.fine_tune_rate, decay=False)] if tuned else []


def tuning_loop(config: FitConfig, n_batches: int) -> LoopConfig:
    """Up and down in straight lines; every epoch is trained, whatever the dev scores."""
    return LoopConfig(
        steps=config.epochs * n_batches,
        optimizer=AdamWConfig(lr=config.lr, weight_decay=config.weight_decay, eps=_EPS),
        schedule=LinearSchedule(warmup=config.tuning.warmup),
        clip=config.clip,
        loss_scale=None,
        seed=config.seed,
        log_steps=1,
        checkpoint_minutes=None,
        valid_steps=n_batches,
    )
