"""What the learning rate is multiplied by at each step."""

import math
from typing import Annotated, Literal

from pydantic import Field

from elmore.config import Frozen


class ConstantSchedule(Frozen):
    """Constant, after an optional linear warmup."""

    kind: Literal["constant"] = "constant"
    warmup: int = Field(default=0, ge=0)

    def factor(self, step: int, progress: float, drops: int) -> float:
        return min(1.0, step / self.warmup) if self.warmup else 1.0


class NoamSchedule(Frozen):
    """dim^-½ · min(step^-½, step · warmup^-1½): the original Transformer's."""

    kind: Literal["noam"] = "noam"
    dim: int = Field(default=512, ge=1)
    warmup: int = Field(default=6000, ge=1)

    def factor(self, step: int, progress: float, drops: int) -> float:
        return float(self.dim**-0.5 * min(step**-0.5, step * self.warmup**-1.5))


class CosineSchedule(Frozen):
    """A linear warmup of `warmup` steps, then half a cosine down to `floor` at the end."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(default=200, ge=0)
    floor: float = Field(default=0.0, ge=0, le=1)

    def factor(self, step: int, progress: float, drops: int) -> float:
        climb = min(1.0, step / self.warmup) if self.warmup else 1.0
        down = self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return climb * down


class LinearSchedule(Frozen):
    """Up in a straight line for the share `warmup` of the run, then down to `floor` at its end: how
    BERT is pretrained and fine-tuned, without the jump that the original has after the warmup."""

    kind: Literal["linear"] = "linear"
    warmup: float = Field(default=0.1, ge=0, lt=1)
    floor: float = Field(default=0.0, ge=0, le=1)

    def factor(self, step: int, progress: float, drops: int) -> float:
        down = (1 - min(1.0, progress)) / (1 - self.warmup)
        down = self.floor + (1 - self.floor) * down
        return min(down, progress / self.warmup) if self.warmup else down


class PlateauSchedule(Frozen):
    """Multiplied by `drop` after every `after` validations in a row without improvement."""

    kind: Literal["plateau"] = "plateau"
    warmup: int = Field(default=0, ge=0)
    drop: float = Field(default=0.5, gt=0, lt=1)
    after: int = Field(default=1, ge=1)

    def factor(self, step: int, progress: float, drops: int) -> float:
        climb = min(1.0, step / self.warmup) if self.warmup else 1.0
        return climb * float(self.drop**drops)


Schedule = Annotated[
    ConstantSchedule | NoamSchedule | CosineSchedule | LinearSchedule | PlateauSchedule,
    Field(discriminator="kind"),
]
