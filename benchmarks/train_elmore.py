"""elmore's side of the training benchmark: `pretrain` itself, as a user runs it, stopped between
turns by its own progress report.
"""

import sys
from pathlib import Path

from train_child import Job, Turns

from elmore.config import override
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from elmore.train.loop import Progress

_NEVER = 10**9


class _Enough(Exception):
    """The parent wants no more turns."""


class Reporter:
    """Called by the loop every `steps` steps: answers for the turn, then waits for the next."""

    def __init__(self, warm_up_calls: int):
        self.turns, self.words, self.left = Turns(), 0, warm_up_calls

    def __call__(self, progress: Progress, figures: dict[str, float]) -> None:
        self.left -= 1
        if self.left <= 0:
            # The loop counts the predictions of both directions; a word is counted once here.
            self.turns.done((progress.words - self.words) // 2, figures["loss"])
            if not self.turns.wait():
                raise _Enough
        self.words = progress.words


def endless(recipe: PretrainConfig, report_steps: int) -> PretrainConfig:
    """The recipe with no end, no checkpoint and no validation in the measured time."""
    loop = recipe.loop.model_copy(
        update={"steps": _NEVER, "log_steps": report_steps, "checkpoint_minutes": float(_NEVER)}
    )
    return recipe.model_copy(update={"loop": loop, "epochs": None})


def main(job: Job) -> None:
    recipe = override(find_recipe(job.case.recipe), job.case.settings)
    assert isinstance(recipe, PretrainConfig)
    config = endless(recipe, job.steps)
    sentences, vocabulary = job.folder / "sentences.txt", job.folder / "vocab.txt"
    warm_up_calls = -(-job.warm_up // job.steps)
    try:
        pretrain(
            [sentences],
            Path(job.folder / "run"),
            config,
            vocabulary=vocabulary,
            report=Reporter(warm_up_calls),
        )
    except _Enough:
        return


if __name__ == "__main__":
    main(Job.read(sys.argv[1]))
