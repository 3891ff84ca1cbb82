"""The smallest objective a loop can train: a line through points, the points in a fixed order."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from elmore.train.loop import Loop, LoopConfig, Loss
from elmore.train.optimizer import AdagradConfig, Group
from elmore.train.run_folder import RunFolder, checkpoints
from elmore.train.world import World

QUICK = LoopConfig(steps=10, optimizer=AdagradConfig(lr=0.1), log_steps=1)


class Toy:
    """Squared errors of a linear map; every batch is the next `size` points."""

    higher_is_better = False

    def __init__(self, size: int = 4, scores: list[float] | None = None):
        torch.manual_seed(0)
        self.module: nn.Module = nn.Linear(3, 1)
        self.size, self.scores, self.at = size, scores or [], 0
        generator = torch.Generator().manual_seed(1)
        self.points = torch.randn(64, 3, generator=generator)

    def groups(self) -> list[Group]:
        return [Group(list(self.module.parameters()))]

    def begin(self, step: int, done: float) -> None:
        del step, done  # nothing is drawn at random

    def next_loss(self, rng: np.random.Generator) -> Loss:
        del rng
        batch = self.points[torch.arange(self.at, self.at + self.size) % len(self.points)]
        self.at += self.size
        errors = (self.module(batch) - batch.sum(1, keepdim=True) - 5.0).square()
        return Loss(errors.sum(), len(batch), {"largest": errors.max().item() * len(batch)})

    def validate(self) -> dict[str, float]:
        return {"score": self.scores.pop(0)} if self.scores else {}

    def state(self) -> Any:
        return self.at

    def restore(self, state: Any) -> None:
        self.at = state

    def save(self, folder: Path) -> None:
        torch.save(self.module.state_dict(), folder / "model.pt")


def loop(objective: Toy, folder: Path, **changes: Any) -> Loop:
    config = QUICK.model_copy(update=changes)
    return Loop(objective, config, RunFolder(folder, keep=config.keep), World())


def resumed(objective: Toy, folder: Path, **changes: Any) -> Loop:
    """As `pretrain` does it: weights from the newest checkpoint, then the rest."""
    newest = checkpoints(folder)[-1]
    objective.module.load_state_dict(torch.load(newest / "model.pt", weights_only=True))
    again = loop(objective, folder, **changes)
    again.resume()
    return again
