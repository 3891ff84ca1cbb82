"""The settings of runs that make static vectors, with the objectives of objectives/sgns.py and
objectives/glove.py. Their weights are changed in place, pair by pair, by the objective itself.
"""

from typing import Literal

from pydantic import Field, model_validator

from elmore.config import Frozen
from elmore.pretrain.sentences import ReadingConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import InPlaceConfig
from elmore.train.schedule import ConstantSchedule, LinearSchedule


class StaticVocabularyConfig(Frozen):
    """Which words get a vector; others are left out of the text before pairs are made."""

    min_count: int = Field(default=5, ge=1)
    max_size: int | None = Field(default=None, ge=4)


class StaticRunConfig(Frozen):
    """What both kinds have."""

    dim: int = Field(default=100, ge=1, le=65_536)
    words: int = Field(default=10_000, ge=1)
    """Of the text, for one step."""
    reading: ReadingConfig = ReadingConfig()
    vocabulary: StaticVocabularyConfig = StaticVocabularyConfig()
    valid_words: int = Field(default=50_000, ge=1)
    """Words from the start of the validation text that are used each time."""
    loop: LoopConfig
    epochs: float | None = Field(default=None, gt=0, le=1e9)

    @model_validator(mode="after")
    def _learns_in_place(self) -> "StaticRunConfig":
        if self.loop.optimizer.kind != "in-place":
            raise ValueError(
                f"loop.optimizer.kind is {self.loop.optimizer.kind}; static vectors are changed in "
                "place, and only the rate can be set: loop.optimizer.lr"
            )
        return self


class SgnsConfig(StaticRunConfig):
    """Skip-grams with negative samples; the defaults are gensim's."""

    kind: Literal["sgns"] = "sgns"
    window: int = Field(default=5, ge=1, le=1000)
    """Words to either side at most; for each word a smaller number is drawn."""
    negatives: int = Field(default=5, ge=1, le=1000)
    """Words that are drawn for each pair,"""
    power: float = Field(default=0.75, ge=0)
    """with this power of their counts."""
    sample: float = Field(default=1e-3, ge=0)
    """Words with a larger share of the text are left out at random; 0: none are."""
    loop: LoopConfig = LoopConfig(
        optimizer=InPlaceConfig(lr=0.025),
        schedule=LinearSchedule(warmup=0.0, floor=0.004),
        clip=None,
    )
    epochs: float | None = Field(default=5, gt=0, le=1e9)


class GloveConfig(StaticRunConfig):
    """GloVe: counts of words near each other; the defaults are its paper's."""

    kind: Literal["glove"] = "glove"
    window: int = Field(default=15, ge=1, le=1000)
    """Words to either side; a pair at distance d counts 1/d."""
    most: float = Field(default=100.0, gt=0)
    power: float = Field(default=0.75, ge=0)
    """A pair that was counted x times weighs min(1, x / most)^power."""
    loop: LoopConfig = LoopConfig(
        optimizer=InPlaceConfig(lr=0.05), schedule=ConstantSchedule(), clip=None
    )
    epochs: float | None = Field(default=50, gt=0, le=1e9)
