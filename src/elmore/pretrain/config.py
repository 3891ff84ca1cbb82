"""All settings of a pretraining run, and what run.json keeps of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from elmore.config import Frozen
from elmore.models.bert import BertConfig
from elmore.models.bilm import BiLMConfig
from elmore.models.causal import CausalConfig
from elmore.models.context2vec import Context2vecConfig
from elmore.nn.softmax import SampledSoftmaxConfig, SoftmaxConfig
from elmore.nn.word_char import WordCharConfig
from elmore.pretrain.batches import RowsConfig, SentencesConfig
from elmore.pretrain.masked_instances import InstancesConfig
from elmore.pretrain.sentences import Counting, ReadingConfig
from elmore.pretrain.static_config import GloveConfig, SgnsConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.precision import Precision, Rounding
from elmore.train.schedule import LinearSchedule

RUN_VERSION = 3
BatchesConfig = Annotated[RowsConfig | SentencesConfig, Field(discriminator="kind")]
TableStart = Literal["random", "static"]
AttentionStart = Literal["random", "neighbors"]


class VocabularyConfig(Frozen):
    """Which words can be predicted, when the vocabulary is made from the corpus."""

    min_count: int = Field(default=3, ge=1)
    max_size: int | None = Field(default=None, ge=4)


class PretrainConfig(Frozen):
    """A recipe for a biLM: model, data, objective and loop. `kind` is the objective's, a file in
    objectives/."""

    kind: Literal["bilm"] = "bilm"
    model: BiLMConfig = BiLMConfig()
    softmax: SoftmaxConfig = SampledSoftmaxConfig()
    batches: BatchesConfig = RowsConfig()
    reading: ReadingConfig = ReadingConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    loop: LoopConfig = LoopConfig()
    epochs: float | None = Field(default=None, gt=0, le=1e9)
    """Becomes loop.steps once the corpus has been counted."""
    output_dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On the vectors that predict."""
    precision: Precision = "auto"
    """Of the matrix products: bfloat16 needs a GPU, or a CPU with AVX-512 BF16 or AMX. `auto` is
    bfloat16 on a GPU; on a CPU only if the model's vectors have at least 256 numbers and a short
    measurement finds it 1.3 times as fast as float32. It is decided once, when a run begins."""
    softmax_start: Literal["random", "static"] = "random"
    """Of a new model: `static` counts neighbors in the corpus first and gives every word a bias
    and a vector to start from, in the softmax and in a table of words beside the spelling: a minute
    for 20 million words; see docs/results.md."""
    softmax_first: Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Starting from a model without a softmax, only the new softmax learns at first: so many steps,
    or this share of the run, which is then at most 500 steps."""
    valid_words: int | None = Field(default=50_000, ge=1)
    """Words from the start of the validation text that are used each time; null for all."""

    @model_validator(mode="after")
    def _fits(self) -> "PretrainConfig":
        if not self.model.has_state and self.batches.kind == "rows":
            raise ValueError("a Transformer carries no state: use batches.kind=sentences")
        if self.softmax_start == "static" and self.softmax.kind == "adaptive":
            raise ValueError("softmax_start=static needs a row per word: softmax.kind is adaptive")
        match self.model.words:
            case WordCharConfig(word_dim=width, dim=dim) if width not in (0, dim):
                if self.softmax_start == "static":
                    raise ValueError(f"softmax_start=static needs model.words.word_dim={dim}")
        return self


class PieceVocabularyConfig(Frozen):
    """The WordPiece vocabulary, when it is made from the corpus."""

    size: int = Field(default=30_000, ge=10)
    lowercase: bool = True
    min_count: int = Field(default=2, ge=1)
    """Of a pair of pieces that is joined."""
    max_alphabet: int = Field(default=1000, ge=1)
    """Characters; words with others are unknown. Chinese text needs some 6,000."""


class MaskedConfig(Frozen):
    """A recipe for a BERT: the same parts, with the objective of objectives/masked.py."""

    kind: Literal["masked"] = "masked"
    model: BertConfig = BertConfig()
    instances: InstancesConfig = InstancesConfig()
    rows: int = Field(default=256, ge=1)
    """In each batch of each process."""
    table_start: TableStart = "random"
    """Of a new model's table of pieces: `static` counts neighbors in the corpus first."""
    attention_start: AttentionStart = "random"
    """Of a new model: `neighbors` has the heads of its first block look at the pieces nearby."""
    reading: ReadingConfig = ReadingConfig(tokenize=True)
    vocabulary: PieceVocabularyConfig = PieceVocabularyConfig()
    loop: LoopConfig = LoopConfig(
        optimizer=AdamWConfig(lr=1e-4, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01),
        schedule=LinearSchedule(warmup=0.01),
        clip=1.0,
    )
    epochs: float | None = Field(default=None, gt=0, le=1e9)
    precision: Precision = "auto"
    """As of a biLM."""
    valid_rows: int = Field(default=512, ge=1)
    """Rows of the validation text that are used each time."""


class SubwordConfig(Frozen):
    """The pieces, when they are made from the corpus."""

    kind: Literal["bytes", "words"] = "bytes"
    """Byte pairs, from which any text can be written; or whole words, others being unknown."""
    size: int = Field(default=8_000, ge=4)
    min_count: int = Field(default=2, ge=1)
    """Of a pair of pieces that is joined; of a word."""


class LinesConfig(Frozen):
    """Each line of the corpus is read by itself, between its marks."""

    pieces: int = Field(default=2000, ge=1)
    """In a batch, about."""
    longest: int = Field(default=100, ge=2)
    """Longer lines are cut after so many pieces."""


class CausalRunConfig(Frozen):
    """A recipe for a causal language model, with the objective of objectives/causal.py."""

    kind: Literal["causal"] = "causal"
    model: CausalConfig = CausalConfig()
    batches: LinesConfig = LinesConfig()
    table_start: TableStart = "random"
    """Of a new model's table of pieces: `static` counts neighbors in the corpus first."""
    attention_start: AttentionStart = "random"
    """Of a new GPT: `neighbors` has the heads of its first block look at the pieces before."""
    reading: ReadingConfig = ReadingConfig(as_is=True)
    """Lines as they are written: pieces of a line give it back, but for its spaces."""
    vocabulary: SubwordConfig = SubwordConfig()
    loop: LoopConfig = LoopConfig(
        optimizer=AdamWConfig(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.01),
        schedule=LinearSchedule(warmup=0.02),
        clip=1.0,
    )
    epochs: float | None = Field(default=None, gt=0, le=1e9)
    output_dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """On the vectors that predict."""
    floor_rate: float = Field(default=1.0, gt=0, le=1)
    """What the learning rate is multiplied by from each layer to the one below; the softmax, also
    one that is the table too, has the whole rate."""
    large_states: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Penalty on the mean square of the vectors that predict (AWD-LSTM's activation
    regularization)."""
    sudden_states: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Penalty on the mean square of the top layer's change from step to step (its temporal one)."""
    precision: Precision = "auto"
    """As of a biLM."""
    valid_pieces: int = Field(default=50_000, ge=1)
    """Pieces of the validation text that are used each time, about."""


class AutoencoderConfig(CausalRunConfig):
    """A recipe for a sequence autoencoder, with the objective of objectives/autoencoder.py."""

    kind: Literal["autoencoder"] = "autoencoder"  # type: ignore[assignment]


class Context2vecRunConfig(Frozen):
    """A recipe for context2vec, with the objective of objectives/context2vec.py. The published rate
    of 1e-3 ends in NaN after some epochs: here it is half, and gradients are clipped."""

    kind: Literal["context2vec"] = "context2vec"
    model: Context2vecConfig = Context2vecConfig()
    batches: LinesConfig = LinesConfig()
    """Its pieces are words."""
    negatives: int = Field(default=10, ge=1, le=1000)
    """Words that are drawn for each place,"""
    power: float = Field(default=0.75, ge=0)
    """with this power of their counts."""
    reading: ReadingConfig = ReadingConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    loop: LoopConfig = LoopConfig(optimizer=AdamWConfig(lr=5e-4), clip=5.0)
    epochs: float | None = Field(default=10, gt=0, le=1e9)
    precision: Precision = "auto"
    """As of a biLM; LSTMs and scores are computed in float32."""
    valid_words: int = Field(default=50_000, ge=1)
    """Of the validation text that are used each time, about."""


def _kind(config: Any) -> str:
    """Runs of the first versions name no kind: they are of biLMs."""
    kind = config.get("kind", "bilm") if isinstance(config, dict) else config.kind
    return str(kind)


AnyConfig = Annotated[
    Annotated[PretrainConfig, Tag("bilm")]
    | Annotated[MaskedConfig, Tag("masked")]
    | Annotated[CausalRunConfig, Tag("causal")]
    | Annotated[AutoencoderConfig, Tag("autoencoder")]
    | Annotated[SgnsConfig, Tag("sgns")]
    | Annotated[GloveConfig, Tag("glove")]
    | Annotated[Context2vecRunConfig, Tag("context2vec")],
    Discriminator(_kind),
]
"""What a recipe returns, by the kind of its objective."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What `pretrain` was called with."""

    corpus: list[str | Path]
    output: Path
    config: AnyConfig
    valid: Path | None
    vocabulary: Path | None
    source: str | None
    """A model to start from."""
    counting: Counting | None = None
    """Told how far the preparation is."""


class Run(Frozen):
    """run.json: what a run is made of, so that it can be resumed."""

    version: int = Field(default=1, ge=1, le=RUN_VERSION)
    """Version 1 had the recipe's model in its config, even if another one was trained, and decayed
    biases that are stored as matrices. In version 2, a table that is the softmax too had the rate
    of a table. Such runs are resumed as they were begun."""
    config: AnyConfig
    """`config.model` is the model that is trained, with the sizes that the text gave it."""
    corpus: list[str]
    valid: str | None = None
    source: str | None = None
    sentences: int
    words: int
    """In the corpus."""
    notes: tuple[str, ...] = ()
    """What should be known about the run, from before its first step."""

    @model_validator(mode="before")
    @classmethod
    def _multiplies_as_it_was_started(cls, values: Any) -> Any:
        """Runs of these kinds that are older than the setting did not round anything."""
        match values:
            case {"config": {"kind": "causal" | "autoencoder" | "context2vec", **config}}:
                kind = values["config"]["kind"]
                return {**values, "config": {"precision": "float32", **config, "kind": kind}}
        return values

    @model_validator(mode="before")
    @classmethod
    def _reads_as_it_was_started(cls, values: Any) -> Any:
        """Runs older than these settings neither joined wrapped lines nor cut long sentences."""
        match values:
            case {"config": {"reading": {**reading} as old}} if "lines" not in reading:
                new = {**old, "lines": "paragraph", "longest": None}
                return {**values, "config": {**values["config"], "reading": new}}
        return values


def rounding(of: Run) -> Rounding:
    """How the products of a run are computed. It is decided before a model is built."""
    assert not isinstance(of.config, SgnsConfig | GloveConfig)
    assert of.config.precision != "auto"
    return of.config.precision


def bilm_config(of: Asked | Run) -> PretrainConfig:
    """The config of a biLM's run."""
    assert isinstance(of.config, PretrainConfig)
    return of.config


def masked_config(of: Asked | Run) -> MaskedConfig:
    """The config of a BERT's run."""
    assert isinstance(of.config, MaskedConfig)
    return of.config


def causal_config(of: Asked | Run) -> CausalRunConfig:
    """The config of a causal model's run, or of an autoencoder's."""
    assert isinstance(of.config, CausalRunConfig)
    return of.config


def context2vec_config(of: Asked | Run) -> Context2vecRunConfig:
    """The config of a context2vec's run."""
    assert isinstance(of.config, Context2vecRunConfig)
    return of.config


def sgns_config(of: Asked | Run) -> SgnsConfig:
    """The config of a run that learns skip-grams."""
    assert isinstance(of.config, SgnsConfig)
    return of.config


def glove_config(of: Asked | Run) -> GloveConfig:
    """The config of a run that learns GloVe's counts."""
    assert isinstance(of.config, GloveConfig)
    return of.config
