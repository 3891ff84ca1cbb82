"""From inputs to vectors. A string names the encoder: `none`, `glove:FILE`, `small-en`,
`store:DIR`, or several joined by `+`. Every encoder also has word and character vectors that are
trained with the task, so two encoders differ only in their pretrained vectors. Some have not: a
model that is fine-tuned as its paper does (`bert:DIR+tune`, `lm:DIR+tune`, `gpt:DIR+tune`) is all
there is below the task's head.
"""

# B sentences, T words in the longest, D vector dim
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.checkpoint.bert import bert_of
from elmore.checkpoint.causal import causal_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load, load_static
from elmore.config import Frozen
from elmore.embedder import Embedder
from elmore.errors import ConfigError, FormatError
from elmore.nn.scalar_mix import ScalarMix
from elmore.store.store import Store
from elmore.tasks.encoded import Dims, Encoded, Input, words_of
from elmore.tasks.encoders.layer_sources import (
    FrozenLayers,
    Join,
    KeptLayers,
    LastLayers,
    LayersInMemory,
    LayersInStore,
    TunedLayers,
)
from elmore.tasks.encoders.names import NONE, STATIC, STORE, Part, Way, parts_of
from elmore.tasks.encoders.source import (
    LearnedMix,
    OwnConfig,
    OwnVectors,
    SourceOutput,
    StaticWords,
    VectorSource,
    batch_of,
)
from elmore.tasks.encoders.tuned_bert import TunedBert
from elmore.tasks.encoders.tuned_gpt import GPTTuningConfig, TunedGPT
from elmore.tasks.encoders.tuned_lm import LMTuningConfig, TunedLM


class EncoderConfig(Frozen):
    """Which pretrained vectors, where they enter, and what is trained of them."""

    model_config = ConfigDict(allow_inf_nan=False)

    source: str = NONE
    """`none`, `glove:FILE` (word2vec files too), whatever `Embedder.load` takes, `bert:DIR`,
    `lm:DIR`, `gpt:DIR`, `store:DIR`, or several joined by `+`; after a model `+last4`, `+tune`."""
    join: Join = "input"
    """Where a biLM enters: at the input; there and at the output of the task's RNN; there only."""
    own: OwnConfig | None = OwnConfig()
    """null: no vectors that only the task trains."""
    tune_static: bool = False
    """Learn corrections to the static vectors of the training set's words."""
    fine_tune: bool = False
    """Train the biLM too, one more layer each epoch; else its vectors are computed once."""
    fine_tune_rate: float = Field(default=0.1, gt=0)
    """What the learning rate is multiplied by for the biLM."""
    mix_l2: float = Field(default=0.0, ge=0)
    """L2 penalty that pulls the weights of a mix towards equal ones."""
    mix_rate: float = Field(default=10.0, gt=0)
    """What the learning rate is multiplied by for these few weights, which would learn slowly."""

    lm: LMTuningConfig = LMTuningConfig()
    """How a language model is fine-tuned (`lm:DIR+tune`); of no use for other encoders."""
    gpt: GPTTuningConfig = GPTTuningConfig()
    """The same of a GPT (`gpt:DIR+tune`)."""

    @property
    def tunes(self) -> Way | None:
        """Which kind of model is fine-tuned as its paper does it; None: the task has a model of its
        own, whether one below is trained or not."""
        ways = (p.way for p in parts_of(self.source) if p.tune or self.fine_tune)
        return next((way for way in ways if way is not None), None)


class Encoder(nn.Module):
    """Sources of vectors side by side, each with its share of every vector."""

    place: Tensor

    def __init__(self, config: EncoderConfig, sources: Sequence[VectorSource]):
        super().__init__()
        self.config = config
        self.register_buffer("place", torch.empty(0), persistent=False)  # it moves with the rest
        self.sources = cast(Sequence[VectorSource], nn.ModuleList(sources))
        self.dims = Dims(
            sum(s.dims.vectors for s in sources),
            sum(s.dims.late for s in sources),
            sum(s.dims.pooled for s in sources),
        )

    def forward(self, inputs: Sequence[Input]) -> Encoded:
        batch = batch_of(inputs, self.device)
        outputs: list[SourceOutput] = [source(batch) for source in self.sources]
        vectors = [output.vectors for output in outputs if output.vectors is not None]
        late = [output.late for output in outputs if output.late is not None]
        empty = self.place.new_zeros(*batch.mask.shape, 0)
        x = torch.cat([empty, *vectors], dim=-1) * batch.mask.unsqueeze(-1)  # (B, T, D)
        pooled = [output.pooled for output in outputs if output.pooled is not None]
        losses = [output.loss for output in outputs if output.loss is not None]
        return Encoded(
            x,
            batch.mask,
            torch.cat(late, dim=-1) if late else None,
            torch.cat(pooled, dim=-1) if pooled else None,
            sum(losses[1:], losses[0]) if losses else None,
        )

    @property
    def device(self) -> torch.device:
        return self.place.device

    def prepare(self, inputs: Iterable[Input]) -> None:
        """Compute frozen vectors once, for every input that will be asked for."""
        inputs = list(inputs)
        for source in self.sources:
            source.prepare(inputs)

    def begin_epoch(self, epoch: int) -> None:
        """Epochs count from 1."""
        for source in self.sources:
            source.begin_epoch(epoch)

    def tuned(self) -> list[list[nn.Parameter]]:
        """A pretrained model's own weights that are trained further, by floors, top first."""
        return [floor for source in self.sources for floor in source.tuned()]

    def scalar_mixes(self) -> list[ScalarMix]:
        return [mix for source in self.sources for mix in source.mixes().values()]

    def mixes(self) -> list[LearnedMix]:
        """What the scalar mixes have learned."""
        return [
            LearnedMix(
                source=source.name,
                place=place,
                weights=tuple(mix.weights.tolist()),
                gamma=mix.gamma.item(),
            )
            for source in self.sources
            for place, mix in source.mixes().items()
        ]

    def penalty(self) -> Tensor:
        """To add to the loss: L2 of the mixes' weights."""
        penalties = (mix.penalty() for mix in self.scalar_mixes())
        return sum(penalties, torch.zeros((), device=self.device))

    @property
    def n_frozen(self) -> int | None:
        """Numbers in pretrained weights and tables that training leaves as they are; None where
        the model behind a store is not known."""
        counts = [source.n_frozen for source in self.sources]
        return None if None in counts else sum(n for n in counts if n is not None)

    def fingerprints(self) -> tuple[str, ...]:
        """Of all pretrained vectors: a saved task refuses vectors other than its own."""
        return tuple(s.fingerprint for s in self.sources if s.fingerprint is not None)

    def notes(self, inputs: Iterable[Input]) -> tuple[str, ...]:
        """On words and inputs that are longer than a source reads."""
        inputs = list(dict.fromkeys(inputs))
        words = {word for item in inputs for word in words_of(item)}
        return tuple(
            note
            for source in self.sources
            for note in (*source.notes(words), *source.long_inputs(inputs))
        )

    def unread(self, inputs: Iterable[Input]) -> tuple[str, ...]:
        """Notes on sources that cannot tell most of the words apart."""
        words = sorted({word for item in inputs for word in words_of(item)})
        return tuple(note for source in self.sources for note in source.unread(words))


def build_encoder(
    config: EncoderConfig, words: Sequence[str], *, cache: Path | None = None
) -> Encoder:
    """`words` have trained vectors of their own, see `own_words`. A frozen model's vectors are kept
    in a store under `cache`, else in memory."""
    parts = [part for part in parts_of(config.source) if part.name != NONE]
    if config.tunes is not None:
        return Encoder(config, _tuned_alone(parts, config))
    own = [] if config.own is None else [OwnVectors(config.own, words)]
    pretrained = [_pretrained(part, config, words, cache) for part in parts]
    encoder = Encoder(config, [*own, *pretrained])
    if config.fine_tune and not encoder.tuned():
        raise ConfigError(f"encoder {config.source!r}: there is no model in it to fine-tune.")
    return encoder


def _tuned_alone(parts: Sequence[Part], config: EncoderConfig) -> list[VectorSource]:
    """A model that is trained as its paper does it; of language models, one or more."""
    if config.tunes == "lm" and all(part.way == "lm" for part in parts):
        models = [TunedLM(part.name, _loaded(part), config.lm) for part in parts]
        if len({model.dims for model in models}) > 1:
            raise ConfigError(f"encoder {config.source!r}: expected models of one width.")
        return [*models]
    if len(parts) > 1:
        raise ConfigError(
            f"encoder {config.source!r}: a model that is fine-tuned so stands alone; to fine-tune "
            f"it beside other vectors, under the task's own model, leave out '{config.tunes}:'."
        )
    part = parts[0]
    if part.way == "gpt":
        checkpoint = _checked(part, load(part.model, heads=True))
        return [TunedGPT(part.name, checkpoint, config.gpt)]
    return [TunedBert(part.name, _loaded(part))]


def _pretrained(
    part: Part, config: EncoderConfig, words: Sequence[str], cache: Path | None
) -> VectorSource:
    name = part.name
    if name.startswith(STATIC):
        vectors = load_static(name.removeprefix(STATIC))
        return StaticWords(name, vectors, words, tune=config.tune_static)
    if name.startswith(STORE):
        stored = LayersInStore(Store.open(name.removeprefix(STORE)))
        return FrozenLayers(name, config.join, stored, l2=config.mix_l2)
    embedder = _loaded(part)
    if part.tune or config.fine_tune:
        return TunedLayers(name, config.join, embedder, l2=config.mix_l2)
    kept: KeptLayers = (
        LayersInMemory(embedder) if cache is None else LayersInStore.cached(embedder, cache)
    )
    kept = LastLayers(kept, name) if part.last else kept
    return FrozenLayers(name, config.join, kept, embedder, l2=config.mix_l2)


def _loaded(part: Part) -> Embedder:
    embedder = Embedder.load(part.model)
    _checked(part, embedder.checkpoint)
    return embedder


def _checked(part: Part, checkpoint: Checkpoint) -> Checkpoint:
    """A model, if it is of the kind that it is called."""
    try:
        match part.way:
            case "bert":
                bert_of(checkpoint)
            case "lm" | "gpt":
                causal_of(checkpoint)
    except FormatError as error:
        raise ConfigError(f"encoder {part.name!r}: {error}") from None
    return checkpoint
