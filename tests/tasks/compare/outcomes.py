"""Outcomes made by hand, for tests of the table and of the page."""

from collections.abc import Sequence

from elmore.tasks.compare.trials import Done, Failed, Trial
from elmore.tasks.encoders.source import LearnedMix

GLOVE = "glove:/data/glove.6B.50d.txt"
ELMO = f"{GLOVE}+models/small-en"
MIX = LearnedMix(source="models/small-en", place="input", weights=(0.5, 0.3, 0.2), gamma=1.5)


def done(
    encoder: str,
    f1: float,
    *,
    seed: int = 1,
    fraction: float = 1.0,
    examples: int = 1000,
    mixes: Sequence[LearnedMix] = (),
    seconds: float = 60.0,
) -> Done:
    return Done(
        trial=Trial(encoder=encoder, fraction=fraction, seed=seed),
        examples=examples,
        scores={"F1": f1, "precision": f1 + 1},
        dev={"F1": f1 + 2},
        epochs=7,
        seconds=seconds,
        peak=512_000_000,
        trainable=12_345,
        frozen=2_500_000,
        mixes=tuple(mixes),
    )


def failed(encoder: str, *, seed: int = 1, fraction: float = 1.0, error: str = "boom") -> Failed:
    trial = Trial(encoder=encoder, fraction=fraction, seed=seed)
    return Failed(trial=trial, error=error, traceback="…")
