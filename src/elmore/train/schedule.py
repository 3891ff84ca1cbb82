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


class SlantedSchedule(Frozen):
    """ULMFiT's slanted triangle: up in a straight line from 1/`ratio` for the share `cut` of the
    run, then down to 1/`ratio` at its end. The published formula divides by cut·(1/f - 1), where
    cut is rounded down: so its end is below 1/ratio, in short runs below zero, and a run of fewer
    than 1/f steps divides by zero. Here the fall takes what is left of the run."""

    kind: Literal["slanted"] = "slanted"
    cut: float = Field(default=0.1, gt=0, lt=1)
    ratio: float = Field(default=32.0, ge=1)

    def factor(self, step: int, progress: float, drops: int) -> float:
        fall = (1 - min(1.0, progress)) / (1 - self.cut)
        return (1 + min(progress / self.cut, fall) * (self.ratio - 1)) / self.ratio


class OneCycleSchedule(Frozen):
    """Half a cosine up from 1/`start` for the share `warmup` of the run, half a cosine down to
    1/`end` at its end. The momentum stays as it is."""

    kind: Literal["one-cycle"] = "one-cycle"
    warmup: float = Field(default=0.25, gt=0, lt=1)
    start: float = Field(default=25.0, ge=1)
    end: float = Field(default=1e5, ge=1)

    def factor(self, step: int, progress: float, drops: int) -> float:
        if progress < self.warmup:
            low, way = 1 / self.start, progress / self.warmup
        else:
            low, way = 1 / self.end, (1 - min(1.0, progress)) / (1 - self.warmup)
        return low + (1 - low) * 0.5 * (1 - math.cos(math.pi * way))


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
    ConstantSchedule
    | NoamSchedule
    | CosineSchedule
    | LinearSchedule
    | SlantedSchedule
    | OneCycleSchedule
    | PlateauSchedule,
    Field(discriminator="kind"),
]
