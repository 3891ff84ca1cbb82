"""The settings of a lens, and what is kept of a run so that it can be continued."""

from pydantic import Field

from elmore.config import Frozen
from elmore.pretrain.sentences import ReadingConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import LinearSchedule


class LensConfig(Frozen):
    """How a lens is learned. The defaults take some minutes of one core."""

    layers: str = "top"
    """What it maps: top, all, or numbers such as 4,5,6."""
    words: int = Field(default=600_000, ge=1_000)
    """Words of the corpus that are read, in sentences drawn at random."""
    window: int = Field(default=10, ge=1, le=1_000)
    """Places to either side in which words are predicted, within the sentence."""
    pairs: int = Field(default=12, ge=1)
    """Words that are predicted from one use, at most."""
    samples: int = Field(default=1_024, ge=1)
    """Negative samples of a step, shared by all its pairs."""
    negatives: float = Field(default=5.0, gt=0)
    """How many samples a pair counts as much as."""
    power: float = Field(default=0.75, ge=0, le=1)
    """Words are sampled by their counts to this power."""
    frequent: float = Field(default=1e-4, gt=0)
    """Words that are a larger share f of the text are passed over, all but √(frequent / f)."""
    min_count: int = Field(default=5, ge=1)
    """Rarer words are not predicted."""
    batch_words: int = Field(default=1_024, ge=1)
    """Words of the text in a step."""
    reading: ReadingConfig = ReadingConfig()
    loop: LoopConfig = LoopConfig(
        optimizer=AdamWConfig(lr=3e-3),
        schedule=LinearSchedule(warmup=0.0),
        clip=None,
        checkpoint_minutes=1.0,
        keep=1,
    )
    """Its steps follow from `words`."""


class LensRun(Frozen):
    """run.json: what a lens is learned from; a stopped run is continued with the same."""

    version: int = Field(default=1, ge=1, le=1)
    fingerprint: str
    """Of the model."""
    corpus: list[str]
    config: LensConfig
