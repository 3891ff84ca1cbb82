"""The settings of tasks whose answer is text, and what a training can take from language models."""

from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field

from elmore.config import Frozen
from elmore.errors import ConfigError
from elmore.nn.beam_search import SearchConfig

StartName = Literal[
    "none", "none-lm-loss", "encoder", "decoder", "both", "both-no-lm-loss", "both-no-softmax"
]


class Start(NamedTuple):
    """What a training begins with."""

    encoder: bool
    decoder: bool
    softmax: bool
    lm_loss: bool


STARTS: dict[StartName, Start] = {
    "none": Start(False, False, False, False),
    "none-lm-loss": Start(False, False, False, True),
    "encoder": Start(True, False, False, True),
    "decoder": Start(False, True, True, True),
    "both": Start(True, True, True, True),
    "both-no-lm-loss": Start(True, True, True, False),
    "both-no-softmax": Start(True, True, False, True),
}


class GenerationConfig(Frozen):
    """What `--set task.…` changes."""

    model_config = ConfigDict(allow_inf_nan=False)

    source_lm: str | None = None
    """A causal language model of the source's language; its vocabulary and sizes are used
    whatever is taken from it."""
    target_lm: str | None = None
    from_lms: StartName | None = None
    """What is taken from the language models; null: everything from those that are given."""
    source_lm_loss: float = Field(default=0.1, ge=0)
    """Weight of the source language model's own loss on lines of its own text, so that nothing is
    forgotten. It is 1 in the paper; in small models that is learned at the cost of the task."""
    target_lm_loss: float = Field(default=0.1, ge=0)
    lm_rate: float = Field(default=1.0, gt=0, le=1)
    """What the learning rate is multiplied by for all that was taken from language models."""
    vocabulary: int = Field(default=8_000, ge=300, le=1_000_000)
    """Byte pairs of both sides together, where no language model is given."""
    dim: int = Field(default=256, ge=1, le=65_536)
    """Of pieces and layers, where no language model is given."""
    n_upper: int = Field(default=1, ge=1, le=100)
    """Layers above those of the language models."""
    n_below: int = Field(default=0, ge=0, le=100)
    """Layers of the decoder between its language model and the attention."""
    both_directions: bool = True
    """Of the encoder's upper layers; in the paper they read forward only."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    copy_source: bool = False
    """The decoder may copy pieces of the source; both sides have one vocabulary then."""
    coverage: float = Field(default=0.0, ge=0)
    """Weight of the loss on attention to the same place again and again."""
    longest_source: int = Field(default=200, ge=1)
    """Pieces; longer sources are cut, and counted."""
    longest_target: int = Field(default=100, ge=1)
    """Pieces, in training."""
    search: SearchConfig = SearchConfig()
    n_best: int = Field(default=1, ge=1)
    attention: bool = False
    """Predictions say where the decoder looked."""
    bleu_tokenize: str = "13a"
    """How sacrebleu splits words; `zh` for Chinese."""
    bleu_lowercase: bool = False

    def started(self) -> Start:
        """What is taken, checked against what is given."""
        if self.from_lms is None:
            source, target = self.source_lm is not None, self.target_lm is not None
            return Start(source, target, target, source or target)
        found = STARTS[self.from_lms]
        for needs, name in ((found.encoder, "source_lm"), (found.decoder, "target_lm")):
            if needs and getattr(self, name) is None:
                option = name.replace("_", "-")
                raise ConfigError(
                    f"from_lms={self.from_lms} needs a language model: give --{option}."
                )
        return found
