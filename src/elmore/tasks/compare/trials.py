"""What a comparison trains: every encoder, training size and seed once. The outcome of a training
is a file of its own in the comparison's folder.

output/
  settings.json   what all trainings have in common
  results/        one file per training that is finished or has failed
  work/           trainings that are not finished
  table.md, comparison.json, index.html
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from elmore.config import Frozen
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.atomic import write_text
from elmore.small_files import file_sha256, read_small
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.encoders.names import NONE, parts_of
from elmore.tasks.encoders.source import LearnedMix
from elmore.tasks.encoders.tuned_gpt import GPTTuningConfig
from elmore.tasks.encoders.tuned_lm import LMTuningConfig
from elmore.tasks.generation_config import STARTS, GenerationConfig
from elmore.tasks.readers.texts import two_files
from elmore.tasks.recipes import AnyTask, FitConfig, TuningConfig

RESULTS, WORK, SETTINGS = "results", "work", "settings.json"
_MOST_STRETCH = 4.0
_EARLIER: dict[Any, dict[str, Any]] = {
    "classification": {"layout": "trees"},
    "translate": {"lm_rate": 1.0, "n_below": 0},
    "summarize": {"lm_rate": 1.0, "n_below": 0},
}
"""What settings were before they could be chosen, by the kind of task."""
_EARLIER_FIT = {"precision": "float32", "warmup_steps": 0, "cosine": False}
T = TypeVar("T", TuningConfig, LMTuningConfig, GPTTuningConfig)


class Trial(Frozen):
    """What is trained once: an encoder on a share of the training examples, from a seed."""

    encoder: str
    fraction: float = Field(gt=0, le=1)
    seed: int


class CompareConfig(Frozen):
    """What is compared, and on what. Only `encoders` differ between the rows of a table."""

    task: str
    """The name of the comparison."""
    fit: FitConfig
    """Its encoder's source and its seed are replaced by each training's own."""
    train: Path
    dev: Path
    test: Path
    encoders: tuple[str, ...] = Field(min_length=1)
    fractions: tuple[float, ...] = Field(default=(1.0,), min_length=1)
    seeds: int = Field(default=3, ge=1)

    @field_validator("encoders", "fractions")
    @classmethod
    def _each_once(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(given)) < len(given):
            raise ValueError("the same is given twice")
        return given

    @field_validator("fractions")
    @classmethod
    def _shares(cls, fractions: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < fraction <= 1 for fraction in fractions):
            raise ValueError("a fraction is more than 0 and at most 1")
        return tuple(sorted(fractions))

    @property
    def files(self) -> dict[str, Path]:
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def shared_settings(self) -> dict[str, Any]:
        """What all trainings have in common, whatever their encoder and seed. Of the files, the
        contents count: a file may be moved."""
        fit = self.fit.model_dump(mode="json", exclude={"encoder": {"source"}, "seed": True})
        digests = {name: _digest(path) for name, path in self.files.items()}
        return {"task": self.task, "fit": fit, "sha256": digests}

    def trials(self) -> list[Trial]:
        """Seed by seed, so that an unfinished table already has a figure in every row."""
        return [
            Trial(encoder=encoder, fraction=fraction, seed=seed)
            for seed in range(1, self.seeds + 1)
            for fraction in self.fractions
            for encoder in self.encoders
        ]


def _digest(path: Path) -> str:
    """Of a file, or of the two that make up pairs, written `train.de,train.en`."""
    return " ".join(file_sha256(file) for file in two_files(path))


def share(examples: Sequence[Any], trial: Trial) -> list[Any]:
    """Chosen by the seed, not the encoder; a smaller share is a subset of a larger one."""
    order = np.random.default_rng(trial.seed).permutation(len(examples))
    kept = order[: max(1, round(trial.fraction * len(examples)))]
    return [examples[index] for index in sorted(kept.tolist())]


def stretch_of(fraction: float) -> float:
    """How many times more epochs, and how many times smaller batches, a share of the examples has:
    otherwise it would have hardly any steps."""
    return float(min(_MOST_STRETCH, fraction**-0.5))


def trial_settings(config: FitConfig, trial: Trial) -> FitConfig:
    """Fewer examples get more epochs and smaller batches."""
    stretch = stretch_of(trial.fraction)
    stretched = {
        name: math.ceil(getattr(config, name) * stretch)
        for name in ("epochs", "patience", "halve_after")
    }
    task, _ = started(config.task, trial.encoder)
    encoder = encoder_settings(config, trial.encoder)
    ways = {"lm": _stretched(encoder.lm, stretch), "gpt": _stretched(encoder.gpt, stretch)}
    encoder = encoder.model_copy(update=ways)
    own = {"task": task, "encoder": encoder, "seed": trial.seed}
    batch = max(1, round(config.batch / stretch))
    tuning = _stretched(config.tuning, stretch)
    return config.model_copy(update={**own, **stretched, "batch": batch, "tuning": tuning})


def _stretched(tuning: T, stretch: float) -> T:
    """The same for the settings of fine-tuning."""
    epochs, batch = math.ceil(tuning.epochs * stretch), max(1, round(tuning.batch / stretch))
    return tuning.model_copy(update={"epochs": epochs, "batch": batch})


def encoder_settings(config: FitConfig, source: str) -> EncoderConfig:
    """Only encoders that contain a model are fine-tuned."""
    source = started(config.task, source)[1]
    fine_tune = config.encoder.fine_tune and any(part.is_model for part in parts_of(source))
    return config.encoder.model_copy(update={"source": source, "fine_tune": fine_tune})


def started(task: AnyTask, row: str) -> tuple[AnyTask, str]:
    """A row of a task that begins with language models is what it takes from them, or an encoder,
    or both: `both+small-en`. Rows of other tasks are encoders."""
    if not isinstance(task, GenerationConfig):
        return task, row
    first, _, rest = row.partition("+")
    start, source = (first, rest or NONE) if first in STARTS else (NONE, row)
    return task.model_copy(update={"from_lms": start}), source


# Outcomes -----------------------------------------------------------------------------------------


class Done(Frozen):
    """A finished training. The first score is the main one."""

    model_config = ConfigDict(allow_inf_nan=False)

    kind: Literal["done"] = "done"
    trial: Trial
    examples: int = Field(ge=1)
    """Trained on."""
    scores: dict[str, Annotated[float, Field(ge=-1000, le=1000)]] = Field(min_length=1)
    """Of the test file."""
    notes: tuple[str, ...] = ()
    """What readers of the scores should know."""
    dev: dict[str, float]
    """Of the development file, which chose the epoch."""
    epochs: int
    seconds: float
    peak: int | None = None
    """Bytes: the most that the process had at once, in training and in the test."""
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


class TrialFiles:
    """Where the outcome of a training is written, and where it works until then."""

    def __init__(self, output: Path, trial: Trial):
        digest = hashlib.sha256(trial.encoder.encode()).hexdigest()[:8]
        plain = re.sub(r"[^\w.-]+", "-", label(trial.encoder))[:40]
        fraction = repr(trial.fraction).removesuffix(".0")
        name = f"{plain}-{digest}-{fraction}-{trial.seed}"
        self.result = output / RESULTS / f"{name}.json"
        self.work = output / WORK / name
        self.run = self.work / "run"

    def finished(self) -> bool:
        return self.result.exists() and read_outcome(self.result).kind == "done"


def write_outcome(outcome: Done | Failed, path: Path) -> None:
    write_text(path, outcome.model_dump_json(indent=1) + "\n")


def read_outcome(path: Path) -> Done | Failed:
    try:
        return _OUTCOME.validate_json(read_small(path))
    except ValidationError as error:
        what = error.errors()[0]["msg"]
        raise FormatError(
            f"{path}: not a comparison's result ({what}); remove it, and that training runs again."
        ) from None


def read_outcomes(output: Path) -> Iterator[tuple[Path, Done | Failed]]:
    shapes: dict[str, Any] = {}  # of what all seeds must have in common
    for path in sorted((output / RESULTS).glob("*.json")):
        outcome = read_outcome(path)
        if TrialFiles(output, outcome.trial).result.name != path.name:
            raise FormatError(f"{path}: has the result of another training; remove it.")
        if outcome.kind == "done":
            mixes = [(mix.source, mix.place, len(mix.weights)) for mix in outcome.mixes]
            for key, shape in (("", list(outcome.scores)), (outcome.trial.encoder, mixes)):
                if shapes.setdefault(key, shape) != shape:
                    raise FormatError(f"{path}: its figures are not those of the other results.")
        yield path, outcome


def claim_folder(settings: dict[str, Any], output: Path) -> None:
    """Make the folder, or refuse one that is of another task, other files or other settings."""
    path = output / SETTINGS
    if path.exists():
        try:
            before = json.loads(read_small(path))
        except (ValueError, RecursionError):
            raise ConfigError(
                f"{path}: damaged; remove the folder, or choose another --output."
            ) from None
        completed = _complete(before, settings)
        if changed := sorted(_changes(completed, settings)):
            raise ConfigError(
                f"{output}: a comparison with other settings or files ({', '.join(changed)}); "
                "choose another --output, or remove that folder."
            )
        if before != completed:
            write_text(path, _text(settings))
        return
    if any(output.glob("[!.]*")):
        raise InputError(f"{output}: has files in it, but no comparison; choose another --output.")
    output.mkdir(parents=True, exist_ok=True)
    # Written first: another process that starts now must see that this is a comparison.
    write_text(path, _text(settings))


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=1, ensure_ascii=False) + "\n"


def _complete(before: Any, now: dict[str, Any]) -> Any:
    """A comparison older than a way of fine-tuning has none of it, and so no settings of it: any
    may be chosen now. Its classification was of trees, all of a translation had one rate, products
    were in float32, and no learning rate rose at first or fell along a cosine."""
    match before:
        case {"fit": {"encoder": dict(encoder), "task": dict(task), **fit}, **rest}:
            encoder = {way: now["fit"]["encoder"][way] for way in ("lm", "gpt")} | encoder
            task = {**_EARLIER.get(task.get("kind"), {}), **task}
            earlier = {**_EARLIER_FIT, "tuning": now["fit"]["tuning"]}
            return {**rest, "fit": {**earlier, **fit, "encoder": encoder, "task": task}}
    return before


def _changes(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Names of settings that have changed, as `--set` writes them."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            inner = f"{name}.{key}" if name else key
            yield from _changes(before.get(key), now.get(key), inner)
    elif before != now:
        yield name.removeprefix("fit.").removeprefix("sha256.")


# Names --------------------------------------------------------------------------------------------


def names_in(encoder: str) -> frozenset[str]:
    """The sources of an encoder and their options, beside the task's own trained vectors."""
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
