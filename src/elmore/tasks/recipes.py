"""Everything a task's training is, in one config; and tasks by name: functions that return a whole
config, with the settings of published models where these are known. `--set a.b=c` changes a
setting; the pretrained vectors are chosen separately.
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import ConfigDict, Field

from elmore.config import Frozen
from elmore.errors import ConfigError
from elmore.tasks.classification import Classification
from elmore.tasks.coreference import Coreference
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.entailment import Entailment
from elmore.tasks.generation import Summarize, Translate
from elmore.tasks.question_answering import QuestionAnswering
from elmore.tasks.semantic_roles import SemanticRoles
from elmore.tasks.tagging import ConlluLayout, Tagging
from elmore.train.precision import Rounding

AnyTask = Annotated[
    Tagging
    | Classification
    | Entailment
    | QuestionAnswering
    | SemanticRoles
    | Coreference
    | Translate
    | Summarize,
    Field(discriminator="kind"),
]


class TuningConfig(Frozen):
    """How a BERT is fine-tuned: these, in the place of the settings of the same names that are for
    a task's own model."""

    model_config = ConfigDict(allow_inf_nan=False)

    lr: float | None = Field(default=None, gt=0)
    """null: by the width of the model, 5e-5 from 768 on, 3e-4 up to 256, 1e-4 between."""
    floor_rate: float = Field(default=1.0, gt=0, le=1)
    """What the learning rate is multiplied by from each layer to the one below."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """The share of the run in which the learning rate rises; then it falls to zero."""
    epochs: int = Field(default=3, ge=1, le=10**6)
    batch: int = Field(default=32, ge=1, le=10**6)
    weight_decay: float = Field(default=0.01, ge=0)
    """Of matrices; biases and norms have none."""
    clip: float = Field(default=1.0, gt=0)
    """Global norm of the gradient."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Before the linear layer; there is none before that of answers."""


class FitConfig(Frozen):
    """Task, encoder and how to train. The best epoch by the dev score is kept."""

    model_config = ConfigDict(allow_inf_nan=False)

    task: AnyTask
    encoder: EncoderConfig = EncoderConfig()
    epochs: int = Field(default=30, ge=1, le=10**6)
    """At most: `patience` may end training earlier."""
    batch: int = Field(default=32, ge=1, le=10**6)
    """Examples per step."""
    lr: float = Field(default=1e-3, gt=0)
    warmup_steps: int = Field(default=0, ge=0)
    """In which the learning rate rises from zero: large first steps would spoil what was taken from
    language models."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of the task's own matrices; biases, mixes and a fine-tuned model have none."""
    clip: float = Field(default=5.0, gt=0)
    """Global norm of the gradient."""
    cosine: bool = False
    """The learning rate falls to zero along half a cosine over all `epochs`, and training goes on
    to the last; otherwise it is halved and ends by `halve_after` and `patience`."""
    halve_after: int = Field(default=2, ge=1)
    """Epochs without a better dev score after which the learning rate is halved, and again."""
    patience: int = Field(default=6, ge=1)
    """Epochs without a better dev score after which training ends."""
    precision: Rounding = "float32"
    """Of the matrix products in training: those of the encoder, which are large where a model is
    fine-tuned, and of sequence to sequence. Predictions and scores are in float32."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    tuning: TuningConfig = TuningConfig()
    """How a BERT is fine-tuned (`bert:DIR+tune`); of no use for other encoders."""


def ner() -> FitConfig:
    """biLSTM and CRF over the last of CoNLL's columns."""
    return FitConfig(task=Tagging())


def chunking() -> FitConfig:
    """The same model: chunks are spans, as entities are."""
    return ner()


def taglm() -> FitConfig:
    """Spans as in TagLM: two layers, and the biLM's vectors join after the first."""
    return FitConfig(task=Tagging(n_layers=2, late_after=1), encoder=EncoderConfig(join="late"))


def pos() -> FitConfig:
    """Parts of speech (UPOS) of CoNLL-U files."""
    return FitConfig(task=Tagging(layout=ConlluLayout(), spans=False))


def sst() -> FitConfig:
    """One label per sentence: the roots of sentiment trees."""
    return FitConfig(task=Classification())


def classify() -> FitConfig:
    """One label per text: tables and JSON lines."""
    return FitConfig(task=Classification(layout="texts"))


def entailment() -> FitConfig:
    """Two sentences and a label, by ESIM; a biLM joins at the RNN's input and output."""
    return FitConfig(task=Entailment(), encoder=EncoderConfig(join="both"))


def qa() -> FitConfig:
    """Answers within a paragraph (SQuAD 1.1), by attention flow; a biLM joins as in entailment."""
    return FitConfig(task=QuestionAnswering(), encoder=EncoderConfig(join="both"))


def srl() -> FitConfig:
    """Semantic roles: alternating highway LSTM layers, at a size for a CPU."""
    return FitConfig(task=SemanticRoles(), batch=25, clip=1.0)


def coref() -> FitConfig:
    """Clusters of mentions, by end-to-end span ranking; one part of a document per step."""
    return FitConfig(task=Coreference(), batch=1)


def translate() -> FitConfig:
    """One language into another, by sequence to sequence from two language models."""
    return FitConfig(task=Translate(), encoder=EncoderConfig(own=None), batch=64, clip=5.0)


def summarize() -> FitConfig:
    """Headlines, subjects and summaries; pieces may be copied from the text."""
    return FitConfig(task=Summarize(), encoder=EncoderConfig(own=None), batch=32, clip=2.0)


_ALL = (ner, chunking, taglm, pos, sst, classify, entailment, qa, srl, coref, translate, summarize)
RECIPES: dict[str, Callable[[], FitConfig]] = {recipe.__name__: recipe for recipe in _ALL}


def find_task(name: str) -> FitConfig:
    """A task of ours by name."""
    if name not in RECIPES:
        raise ConfigError(f"No task {name!r} to train; expected one of {', '.join(RECIPES)}.")
    return RECIPES[name]()
