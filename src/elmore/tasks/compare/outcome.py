"""The outcome of one training of a comparison, as a file of its own; and summaries over seeds.

Seeds are paired: with one seed every encoder is trained on the same examples in the same order, so
a gain counts the seeds in which it holds.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from elmore.config import Frozen
from elmore.errors import FormatError
from elmore.files.atomic import write_text
from elmore.tasks.encoders.encoder import NONE
from elmore.tasks.encoders.source import LearnedMix


class Trial(Frozen):
    """What is trained once: an encoder on a share of the training examples, from a seed."""

    encoder: str
    fraction: float
    seed: int


class Done(Frozen):
    """A finished training. The first score is the main one."""

    kind: Literal["done"] = "done"
    trial: Trial
    examples: int
    """Trained on."""
    scores: dict[str, float]
    """Of the test file."""
    notes: tuple[str, ...] = ()
    """What readers of the scores should know."""
    dev: dict[str, float]
    """Of the development file, which chose the epoch."""
    epochs: int
    seconds: float
    trainable: int
    frozen: int | None
    fingerprints: tuple[str, ...] = ()
    """Of the pretrained vectors."""
    mixes: tuple[LearnedMix, ...] = ()


class Failed(Frozen):
    """A training that ended in an error; the next run retries it."""

    kind: Literal["failed"] = "failed"
    trial: Trial
    error: str
    traceback: str


Outcome = Annotated[Done | Failed, Field(discriminator="kind")]
_OUTCOME: TypeAdapter[Done | Failed] = TypeAdapter(Outcome)


class Gain(Frozen):
    """How far an encoder is above the largest other encoder that it contains."""

    over: str
    difference: float
    """Of the means, over the seeds that both finished."""
    seeds_above: int
    seeds: int


class Summary(Frozen):
    """One row of the table: an encoder at one training size, over its seeds."""

    encoder: str
    fraction: float
    examples: int
    scores: dict[str, tuple[float, ...]]
    """By name, a figure for each finished seed."""
    failed: int
    seconds: float
    """Wall time of one training, mean; the embedding of the corpus, once for all, not counted."""
    trainable: int
    frozen: int | None
    """None where the model behind a store is not known."""
    mixes: tuple[tuple[LearnedMix, ...], ...]  # [seed][mix]
    gain: Gain | None

    @property
    def measure(self) -> str:
        return next(iter(self.scores))

    @property
    def seeds(self) -> tuple[float, ...]:
        """The main score of each finished seed."""
        return self.scores[self.measure]

    @property
    def mean(self) -> float:
        return fmean(self.seeds)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; one seed has none."""
        return stdev(self.seeds) if len(self.seeds) > 1 else None


def write_outcome(outcome: Done | Failed, path: Path) -> None:
    write_text(path, outcome.model_dump_json(indent=1) + "\n")


def read_outcome(path: Path) -> Done | Failed:
    try:
        return _OUTCOME.validate_json(path.read_bytes())
    except ValidationError as error:
        what = error.errors()[0]["msg"]
        raise FormatError(
            f"{path}: not a comparison's result ({what}); remove it, and that training runs again."
        ) from None


def summarize(outcomes: Iterable[Done | Failed]) -> list[Summary]:
    """A row for each encoder and size that has a finished seed, in the order they came."""
    groups: dict[tuple[str, float], list[Done | Failed]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.trial.encoder, outcome.trial.fraction), []).append(outcome)
    finished = {key: [o for o in group if o.kind == "done"] for key, group in groups.items()}
    return [
        _summary(done, len(groups[key]) - len(done), _contained(key, finished))
        for key, done in finished.items()
        if done
    ]


def _summary(done: list[Done], failed: int, base: list[Done]) -> Summary:
    first = done[0]
    return Summary(
        encoder=first.trial.encoder,
        fraction=first.trial.fraction,
        examples=first.examples,
        scores={name: tuple(o.scores[name] for o in done) for name in first.scores},
        failed=failed,
        seconds=fmean(o.seconds for o in done),
        trainable=first.trainable,
        frozen=first.frozen,
        mixes=tuple(o.mixes for o in done),
        gain=_gain(done, base),
    )


def _gain(done: Sequence[Done], base: Sequence[Done]) -> Gain | None:
    after, before = (
        {o.trial.seed: next(iter(o.scores.values())) for o in own} for own in (done, base)
    )
    pairs = [(score, before[seed]) for seed, score in after.items() if seed in before]
    if not pairs:
        return None
    return Gain(
        over=base[0].trial.encoder,
        difference=fmean(a - b for a, b in pairs),
        seeds_above=sum(a > b for a, b in pairs),
        seeds=len(pairs),
    )


def _contained(key: tuple[str, float], finished: dict[tuple[str, float], list[Done]]) -> list[Done]:
    """The largest encoder at the same size whose sources are a proper subset of this one's."""
    own = names_in(key[0])
    smaller = [
        (len(names_in(encoder)), done)
        for (encoder, fraction), done in finished.items()
        if fraction == key[1] and names_in(encoder) < own and done
    ]
    return max(smaller, key=lambda found: found[0], default=(0, []))[1]


def names_in(encoder: str) -> frozenset[str]:
    """The sources of an encoder, beside the task's own trained vectors."""
    return frozenset(name.strip() for name in encoder.split("+")) - {NONE}


def labels(encoders: Iterable[str]) -> dict[str, str]:
    """Short names, `glove + small-en`; with file names where short ones would be alike."""
    known = list(dict.fromkeys(encoders))
    for shorten in (_short, _file_name, str):
        found = {encoder: " + ".join(map(shorten, encoder.split("+"))) for encoder in known}
        if len(set(found.values())) == len(known):
            break
    return found


def label(encoder: str) -> str:
    """The short name of one."""
    return labels([encoder])[encoder]


def _short(name: str) -> str:
    kind, colon, _ = name.partition(":")
    return kind if colon else Path(name).name


def _file_name(name: str) -> str:
    kind, colon, file = name.partition(":")
    return f"{kind}:{Path(file).name}" if colon else Path(name).name
