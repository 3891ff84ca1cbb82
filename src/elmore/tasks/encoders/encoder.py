"""Sentences into vectors, as a string says: `none`, `glove:FILE`, `small-en`, `store:DIR`, and
stacks with `+`. Word and character vectors trained with the task are in every one of them, so that
two encoders differ in the pretrained vectors alone.
"""

# B sentences, T words in the longest, D vector dim
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.models.static import StaticVectors
from elmore.nn.scalar_mix import ScalarMix
from elmore.store.store import Store
from elmore.tasks.encoded import Dims, Encoded, Words
from elmore.tasks.encoders.layer_inputs import (
    FrozenPart,
    Join,
    LayersInMemory,
    LayersInStore,
    MixedPart,
    TunedPart,
)
from elmore.tasks.encoders.layer_inputs import LearntMix as LearntMix
from elmore.tasks.encoders.word_inputs import (
    OwnConfig,
    OwnVectors,
    StaticPart,
    batch_of,
    cut_words,
    frequent_words,
)

NONE, STATIC, STORE = "none", "glove:", "store:"


class EncoderConfig(Frozen):
    """Which pretrained vectors, where they enter, and what is trained of them."""

    model_config = ConfigDict(allow_inf_nan=False)

    source: str = NONE
    """`none`, `glove:FILE` (word2vec files too), whatever `Embedder.load` takes, `store:DIR`, or
    several joined by `+`."""
    join: Join = "input"
    """Where a biLM enters: at the input; there and at the output of the task's RNN; there only."""
    own: OwnConfig = OwnConfig()
    tune_static: bool = False
    """Learn corrections to the static vectors of the training set's words."""
    fine_tune: bool = False
    """Train the biLM along, a layer more each epoch; else its vectors are computed once."""
    fine_tune_rate: float = Field(default=0.1, gt=0)
    """What the learning rate is multiplied by for the biLM."""
    mix_l2: float = Field(default=0.0, ge=0)
    """Pulls the weights of a mix towards equal shares."""
    mix_rate: float = Field(default=10.0, gt=0)
    """What the learning rate is multiplied by for them: a few numbers, which noise moves slowly."""


class Encoder(nn.Module):
    """Parts side by side, each with its share of every vector."""

    def __init__(self, config: EncoderConfig, own: OwnVectors, pretrained: Sequence[nn.Module]):
        super().__init__()
        self.config = config
        self.parts = nn.ModuleList([own, *pretrained])
        dims = [part.dims for part in self.parts if isinstance(part.dims, Dims)]
        self.dims = Dims(sum(d.vectors for d in dims), sum(d.late for d in dims))

    def forward(self, sentences: Sequence[Words]) -> Encoded:
        batch = batch_of(sentences, self.device)
        outputs = [part(batch) for part in self.parts]
        vectors = [output.vectors for output in outputs if output.vectors is not None]
        late = [output.late for output in outputs if output.late is not None]
        x = torch.cat(vectors, dim=-1) * batch.mask.unsqueeze(-1)  # (B, T, D)
        return Encoded(x, batch.mask, torch.cat(late, dim=-1) if late else None)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def prepare(self, sentences: Iterable[Words]) -> None:
        """Compute frozen vectors once, for every sentence that will be asked for."""
        sentences = list(sentences)
        for part in self.parts:
            if isinstance(part, FrozenPart):
                part.prepare(sentences)

    def begin_epoch(self, epoch: int) -> None:
        """Epochs count from 1."""
        for part in self.parts:
            if isinstance(part, TunedPart):
                part.begin_epoch(epoch)

    def tuned(self) -> list[nn.Parameter]:
        """The biLM's own weights, to be trained at a smaller rate; empty unless fine-tuning."""
        parts = [part for part in self.parts if isinstance(part, TunedPart)]
        return [parameter for part in parts for parameter in part.elmo.bilm.parameters()]

    def mixes(self) -> list[LearntMix]:
        parts = [part for part in self.parts if isinstance(part, MixedPart)]
        return [mix for part in parts for mix in part.learnt()]

    def penalty(self) -> Tensor:
        """To add to the loss: L2 of the mixes' weights."""
        penalties = (mix.penalty() for mix in self.scalar_mixes())
        return sum(penalties, torch.zeros((), device=self.device))

    def scalar_mixes(self) -> list[ScalarMix]:
        return [mix for mix in self.modules() if isinstance(mix, ScalarMix)]

    @property
    def n_frozen(self) -> int | None:
        """Numbers in pretrained weights and tables that training leaves as they are; None where
        there are more that nobody has counted (those behind a store)."""
        frozen = [part for part in self.parts if isinstance(part, FrozenPart | StaticPart)]
        counts = [part.n_frozen for part in frozen]
        return None if None in counts else sum(n for n in counts if n is not None)

    def fingerprints(self) -> tuple[str, ...]:
        """Of every pretrained part: a saved task refuses vectors that are not the ones it had."""
        return tuple(
            part.fingerprint
            for part in self.parts
            if isinstance(part, FrozenPart | StaticPart | TunedPart)
        )

    def notes(self, sentences: Iterable[Words]) -> tuple[str, ...]:
        """Words that are longer than a part reads: their ends are cut, and that is said here."""
        words = {word for sentence in sentences for word in sentence}
        said = []
        for part in self.parts:
            if isinstance(part, OwnVectors | FrozenPart | TunedPart) and part.speller is not None:
                name = part.name if isinstance(part, MixedPart) else "the trained spelling"
                said += cut_words(name, part.speller, words)
        return tuple(said)


def own_words(config: EncoderConfig, sentences: Iterable[Words]) -> tuple[str, ...]:
    """The words of a training set that are seen often enough for vectors of their own."""
    return frequent_words(sentences, config.own.min_count)


def build_encoder(
    config: EncoderConfig, words: Sequence[str], *, cache: Path | None = None
) -> Encoder:
    """`words` have trained vectors of their own; see `own_words`. A frozen model's vectors are kept
    in a store under `cache`, else in memory."""
    own = OwnVectors(config.own, words)
    names = [name.strip() for name in config.source.split("+")]
    if not all(names):
        raise ConfigError(
            f"encoder {config.source!r}: a part of it is empty; expected none, glove:FILE, "
            "store:DIR, a model, or several of them joined by +."
        )
    pretrained = [_part(name, config, words, cache) for name in names if name != NONE]
    if config.fine_tune and not any(isinstance(part, TunedPart) for part in pretrained):
        raise ConfigError(f"encoder {config.source!r}: there is no model in it to fine-tune.")
    return Encoder(config, own, pretrained)


def _part(
    name: str, config: EncoderConfig, words: Sequence[str], cache: Path | None
) -> StaticPart | FrozenPart | TunedPart:
    if name.startswith(STATIC):
        vectors = StaticVectors.load(Path(name.removeprefix(STATIC)))
        return StaticPart(vectors, words, tune=config.tune_static)
    if name.startswith(STORE):
        kept = LayersInStore(Store.open(name.removeprefix(STORE)))
        return FrozenPart(name, config.join, kept, l2=config.mix_l2)
    embedder = Embedder.load(name)
    if config.fine_tune:
        return TunedPart(name, config.join, embedder, l2=config.mix_l2)
    layers = LayersInMemory(embedder) if cache is None else LayersInStore.cached(embedder, cache)
    return FrozenPart(name, config.join, layers, l2=config.mix_l2)
