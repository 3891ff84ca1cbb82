"""Everything a task's training is, in one frozen config."""

from pydantic import ConfigDict, Field

from elmore.config import Frozen
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.kinds import AnyTask


class FitConfig(Frozen):
    """Task, encoder and how to train. The best epoch by the dev score is kept."""

    model_config = ConfigDict(allow_inf_nan=False)

    task: AnyTask
    encoder: EncoderConfig = EncoderConfig()
    epochs: int = Field(default=30, ge=1)
    """At most: `patience` may end training earlier."""
    batch: int = Field(default=32, ge=1)
    """Examples per step."""
    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    """Of the task's own matrices; biases, mixes and a fine-tuned model have none."""
    clip: float = Field(default=5.0, gt=0)
    """Global norm of the gradient."""
    halve_after: int = Field(default=2, ge=1)
    """Epochs without a better dev score after which the learning rate is halved, and again."""
    patience: int = Field(default=6, ge=1)
    """Epochs without a better dev score after which training ends."""
    seed: int = Field(default=1, ge=0, lt=2**63)
