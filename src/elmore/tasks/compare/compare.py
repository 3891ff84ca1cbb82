"""Does it pay? Every encoder, training size and seed of one task, each trained once.

A training's outcome is a file of its own: what is finished is never done again, and one that fails
is noted while the others go on. Several processes may work on one folder: each takes what is free.
"""

import hashlib
import json
import math
import re
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from elmore.config import Frozen
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_file
from elmore.files.lock import BusyError, Lock
from elmore.store.store import Store
from elmore.tasks.compare.outcome import (
    Done,
    Failed,
    Trial,
    label,
    names_in,
    read_outcome,
    summarize,
    write_outcome,
)
from elmore.tasks.compare.report import Report
from elmore.tasks.config import FitConfig
from elmore.tasks.encoded import Input
from elmore.tasks.encoders.encoder import STATIC, STORE, EncoderConfig, build_encoder
from elmore.tasks.encoders.kept_layers import LayersInStore
from elmore.tasks.fit import EpochReport, Fitted, fit
from elmore.tasks.task import Corpus, Task

RESULTS, WORK, CACHE = "results", "work", "cache"
SETTINGS, TABLE, JSON, PAGE = "settings.json", "table.md", "comparison.json", "index.html"
_MOST_STRETCH = 4.0


class CompareConfig(Frozen):
    """What is compared, and on what. Only `encoders` differ between the rows of a table."""

    task: str
    """The name the comparison goes by."""
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

    def digests(self) -> dict[str, str]:
        """By contents: the same file elsewhere is the same file."""
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in self.files.items()
        }

    def trials(self) -> list[Trial]:
        """Seed by seed, so that an early table has a figure in every row."""
        return [
            Trial(encoder=encoder, fraction=fraction, seed=seed)
            for seed in range(1, self.seeds + 1)
            for fraction in self.fractions
            for encoder in self.encoders
        ]


@dataclass(frozen=True, slots=True)
class CompareProgress:
    """Told with every epoch's news, and when a training has ended."""

    trial: Trial
    number: int
    """Of this training, from 1."""
    total: int
    epoch: EpochReport | None = None
    outcome: Done | Failed | None = None


@dataclass(frozen=True, slots=True)
class _Data:
    """The three files, read once."""

    train: Corpus[Any]
    dev: Corpus[Any]
    test: Corpus[Any]

    def inputs(self, task: Task[Any, Any, Any]) -> list[Input]:
        examples = (*self.train.examples, *self.dev.examples, *self.test.examples)
        return [item for example in examples for item in task.inputs(example)]


Tell = Callable[[CompareProgress], None]


def compare(
    config: CompareConfig, output: Path, *, cache: Path | None = None, tell: Tell | None = None
) -> Report:
    """Train what is not finished yet, and write table, JSON and page into `output` as they grow."""
    settings = _shared_settings(config)
    run = _Run(config, _read(config), settings, output, cache or output / CACHE, tell)
    for encoder in config.encoders:
        _check_vectors(encoder, config, output)
        _check_stores(encoder, run.data.inputs(config.fit.task))
    _claim(settings, output)
    run.cache.mkdir(parents=True, exist_ok=True)
    trials = config.trials()
    for number, trial in enumerate(trials, start=1):
        run.take(CompareProgress(trial, number, len(trials)))
    return run.report()


def _read(config: CompareConfig) -> _Data:
    task = config.fit.task
    train = task.read(config.train, training=True)
    return _Data(train, task.read(config.dev), task.read(config.test))


class _Place:
    """Where a training leaves its outcome, and where it works until then."""

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


@dataclass(frozen=True, slots=True)
class _Run:
    """One process at work on a comparison."""

    config: CompareConfig
    data: _Data
    settings: dict[str, Any]
    """What every training has in common; its files as they were when they were read."""
    output: Path
    cache: Path
    tell: Tell | None

    def take(self, at: CompareProgress) -> None:
        """Do a training unless it is finished, or another process has it."""
        place = _Place(self.output, at.trial)
        if place.finished():
            return
        place.work.mkdir(parents=True, exist_ok=True)
        try:
            lock = Lock(place.work)
        except BusyError:
            return
        try:
            if not place.finished():  # it may just have been
                self._do(place, at)
        finally:
            lock.release()

    def _do(self, place: _Place, at: CompareProgress) -> None:
        outcome = self._try(place, at)
        place.result.parent.mkdir(exist_ok=True)
        write_outcome(outcome, place.result)
        # A comparison keeps figures, not models; and what failed is tried again from its beginning.
        shutil.rmtree(place.run, ignore_errors=True)
        self.report()
        self._say(at, outcome=outcome)

    def _try(self, place: _Place, at: CompareProgress) -> Done | Failed:
        try:
            return self._train(place, at)
        except Exception as error:  # whatever it is, the other trainings are worth having
            line = " ".join(f"{type(error).__name__}: {error}".split())
            return Failed(trial=at.trial, error=line, traceback=traceback.format_exc())

    def _train(self, place: _Place, at: CompareProgress) -> Done:
        examples = share(self.data.train.examples, at.trial)
        fitted = fit(
            _settings(self.config.fit, at.trial),
            examples,
            self.data.dev.examples,
            place.run,
            cache=self.cache,
            resume=True,
            report=lambda epoch: self._say(at, epoch=epoch),
        )
        return _done(at.trial, len(examples), fitted, self.data.test.examples)

    def report(self) -> Report:
        """Of everything the folder holds, also what was compared earlier or by another process."""
        outcomes = [read_outcome(path) for path in sorted((self.output / RESULTS).glob("*.json"))]
        outcomes.sort(key=lambda outcome: _order(outcome.trial, self.config.encoders))
        failures = [outcome for outcome in outcomes if outcome.kind == "failed"]
        names = {name: path.name for name, path in self.config.files.items()}
        settings = {**self.settings, "files": names}
        notes = (*self._unfinished(outcomes), *self._file_notes(), *_outcome_notes(outcomes))
        rows = summarize(outcomes)
        report = Report(self.config.task, settings, rows, failures, tuple(dict.fromkeys(notes)))
        _write(self.output / TABLE, report.markdown())
        _write(self.output / JSON, report.json())
        _write(self.output / PAGE, report.page())
        return report

    def _unfinished(self, outcomes: Sequence[Done | Failed]) -> Iterator[str]:
        """Those that are still to come, or that another process has taken."""
        trials = self.config.trials()
        missing = len(set(trials) - {outcome.trial for outcome in outcomes})
        if missing:
            yield f"{missing} of {len(trials)} trainings are not finished; the same command goes on"

    def _file_notes(self) -> Iterator[str]:
        for name, path in self.config.files.items():
            for note in getattr(self.data, name).notes:
                yield f"{path.name}: {note}"

    def _say(self, at: CompareProgress, **news: Any) -> None:
        if self.tell is not None:
            self.tell(replace(at, **news))


def _outcome_notes(outcomes: Sequence[Done | Failed]) -> Iterator[str]:
    for outcome in outcomes:
        fraction = outcome.trial.fraction
        of = "" if fraction == 1 else f" with {fraction:g} of the examples"
        for note in outcome.notes if outcome.kind == "done" else ():
            yield f"{label(outcome.trial.encoder)}{of}: {note}"


def _order(trial: Trial, encoders: Sequence[str]) -> tuple[float, int, str, int]:
    """Rows as they were asked for; what was not asked for this time comes after."""
    known = trial.encoder in encoders
    place = encoders.index(trial.encoder) if known else len(encoders)
    return trial.fraction, place, trial.encoder, trial.seed


def _done(trial: Trial, n_examples: int, fitted: Fitted, test: Sequence[Any]) -> Done:
    model = fitted.model
    score = model.evaluate(test)
    return Done(
        trial=trial,
        examples=n_examples,
        scores=score.figures,
        notes=(*fitted.notes, *(f"test: {note}" for note in score.notes)),
        dev=fitted.dev.figures,
        epochs=fitted.epochs,
        seconds=fitted.seconds,
        trainable=fitted.n_trained,
        frozen=fitted.n_frozen,
        fingerprints=model.encoder.fingerprints(),
        mixes=tuple(model.encoder.mixes()),
    )


def share(examples: Sequence[Any], trial: Trial) -> list[Any]:
    """A seed's own choice, the same for every encoder; a smaller share is part of a larger one."""
    order = np.random.default_rng(trial.seed).permutation(len(examples))
    kept = order[: max(1, round(trial.fraction * len(examples)))]
    return [examples[index] for index in sorted(kept.tolist())]


def _settings(config: FitConfig, trial: Trial) -> FitConfig:
    """Fewer examples are read more often and in smaller batches: a small share must not mean that
    there are hardly any steps to learn in."""
    stretch = min(_MOST_STRETCH, trial.fraction**-0.5)
    stretched = {
        name: math.ceil(getattr(config, name) * stretch)
        for name in ("epochs", "patience", "halve_after")
    }
    own = {"encoder": _encoder(config, trial.encoder), "seed": trial.seed}
    batch = max(1, round(config.batch / stretch))
    return config.model_copy(update={**own, **stretched, "batch": batch})


def _encoder(config: FitConfig, source: str) -> EncoderConfig:
    """Fine-tuning is for those that have a model to tune."""
    models = [name for name in names_in(source) if not name.startswith((STATIC, STORE))]
    fine_tune = config.encoder.fine_tune and bool(models)
    return config.encoder.model_copy(update={"source": source, "fine_tune": fine_tune})


# The folder ---------------------------------------------------------------------------------------


def _claim(settings: dict[str, Any], output: Path) -> None:
    """A folder holds figures of one task, one set of files and one set of settings."""
    path = output / SETTINGS
    if path.exists():
        before = _read_settings(path)
        if changed := sorted(_changes(before, settings)):
            raise ConfigError(
                f"{output}: is a comparison with other settings or files ({', '.join(changed)}); "
                "choose another --output, or remove that folder."
            )
        return
    if any(output.glob("[!.]*")):
        raise InputError(f"{output}: has files in it, but no comparison; choose another --output.")
    output.mkdir(parents=True, exist_ok=True)
    # The first file of all: another process that starts now must take the folder for what it is.
    _write(path, json.dumps(settings, indent=1, ensure_ascii=False) + "\n")


def _read_settings(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        raise ConfigError(
            f"{path}: damaged; remove the folder, or choose another --output."
        ) from None


def _check_vectors(encoder: str, config: CompareConfig, output: Path) -> None:
    """Before hours of work: it can be loaded, and is what finished trainings had by that name."""
    now = build_encoder(_encoder(config.fit, encoder), ()).fingerprints()
    for path in (output / RESULTS).glob("*.json"):
        outcome = read_outcome(path)
        if outcome.kind == "failed" or outcome.trial.encoder != encoder:
            continue
        if outcome.fingerprints != now:
            raise ConfigError(
                f"{output}: its results with {encoder} are of other vectors than it holds now; "
                f"remove {path.name} and its like, or choose another --output."
            )


def _check_stores(encoder: str, inputs: Sequence[Input]) -> None:
    """A store has every sentence of all files; what it lacks nobody can compute."""
    for name in names_in(encoder):
        if name.startswith(STORE):
            LayersInStore(Store.open(name.removeprefix(STORE))).prepare(inputs)


def _shared_settings(config: CompareConfig) -> dict[str, Any]:
    """What every training has in common, whatever its encoder and seed."""
    settings = config.fit.model_dump(mode="json")
    settings["encoder"].pop("source")
    settings.pop("seed")
    return {"task": config.task, "fit": settings, "sha256": config.digests()}


def _changes(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Names of settings that are not what they were, as `--set` writes them."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            inner = f"{name}.{key}" if name else key
            yield from _changes(before.get(key), now.get(key), inner)
    elif before != now:
        yield name.removeprefix("fit.").removeprefix("sha256.")


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
