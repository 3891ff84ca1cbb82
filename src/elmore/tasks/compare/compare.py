"""Does it pay? Every encoder, training size and seed of one task, each trained once.

What is finished is never done again, and a training that fails is noted while the others go on.
Several processes may work on one folder: each takes a training that no other has.
"""

import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmore.errors import ConfigError
from elmore.files.lock import BusyError, Lock
from elmore.store.store import Store
from elmore.tasks.compare.outcome import (
    Done,
    Failed,
    Trial,
    label,
    names_in,
    summarize,
    write_outcome,
)
from elmore.tasks.compare.report import Report
from elmore.tasks.compare.results_folder import (
    TrialFiles,
    claim_folder,
    read_outcomes,
    write_report,
)
from elmore.tasks.compare.trials import (
    CompareConfig,
    encoder_settings,
    share,
    trial_settings,
)
from elmore.tasks.encoded import Input
from elmore.tasks.encoders.encoder import STORE, build_encoder
from elmore.tasks.encoders.kept_layers import LayersInStore
from elmore.tasks.fit import EpochReport, Fitted, fit
from elmore.tasks.task import Corpus, Task

CACHE = "cache"


@dataclass(frozen=True, slots=True)
class CompareProgress:
    """Told during every epoch, and when a training has ended."""

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
    settings = config.shared_settings()
    run = _Run(config, _read(config), settings, output, cache or output / CACHE, tell)
    for encoder in config.encoders:
        _check_vectors(encoder, config, output)
        _check_stores(encoder, run.data.inputs(config.fit.task))
    claim_folder(settings, output)
    run.cache.mkdir(parents=True, exist_ok=True)
    trials = config.trials()
    for number, trial in enumerate(trials, start=1):
        run.take(CompareProgress(trial, number, len(trials)))
    return run.report()


def _read(config: CompareConfig) -> _Data:
    task = config.fit.task
    train = task.read(config.train, training=True)
    return _Data(train, task.read(config.dev), task.read(config.test))


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
        files = TrialFiles(self.output, at.trial)
        if files.finished():
            return
        files.work.mkdir(parents=True, exist_ok=True)
        try:
            lock = Lock(files.work)
        except BusyError:
            return
        try:
            if not files.finished():  # it may just have been
                self._do(files, at)
        finally:
            lock.release()

    def _do(self, files: TrialFiles, at: CompareProgress) -> None:
        outcome = self._try(files, at)
        files.result.parent.mkdir(exist_ok=True)
        write_outcome(outcome, files.result)
        # A comparison keeps figures, not models; a failed training is retried from the beginning.
        shutil.rmtree(files.run, ignore_errors=True)
        self.report()
        self._say(at, outcome=outcome)

    def _try(self, files: TrialFiles, at: CompareProgress) -> Done | Failed:
        try:
            return self._train(files, at)
        except Exception as error:  # whatever it is, the other trainings go on
            line = " ".join(f"{type(error).__name__}: {error}".split())
            return Failed(trial=at.trial, error=line, traceback=traceback.format_exc())

    def _train(self, files: TrialFiles, at: CompareProgress) -> Done:
        examples = share(self.data.train.examples, at.trial)
        fitted = fit(
            trial_settings(self.config.fit, at.trial),
            examples,
            self.data.dev.examples,
            files.run,
            cache=self.cache,
            resume=True,
            report=lambda epoch: self._say(at, epoch=epoch),
        )
        return _done(at.trial, len(examples), fitted, self.data.test.examples)

    def report(self) -> Report:
        """Of everything the folder holds, also what was compared earlier or by another process."""
        outcomes = [outcome for _, outcome in read_outcomes(self.output)]
        outcomes.sort(key=lambda outcome: _order(outcome.trial, self.config.encoders))
        failures = [outcome for outcome in outcomes if outcome.kind == "failed"]
        names = {name: path.name for name, path in self.config.files.items()}
        settings = {**self.settings, "files": names}
        notes = (*self._unfinished(outcomes), *self._file_notes(), *_outcome_notes(outcomes))
        rows = summarize(outcomes)
        report = Report(self.config.task, settings, rows, failures, tuple(dict.fromkeys(notes)))
        write_report(report, self.output)
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


def _check_vectors(encoder: str, config: CompareConfig, output: Path) -> None:
    """Before hours of work: it can be loaded, and has not changed since finished trainings."""
    now = build_encoder(encoder_settings(config.fit, encoder), ()).fingerprints()
    for path, outcome in read_outcomes(output):
        if outcome.kind == "failed" or outcome.trial.encoder != encoder:
            continue
        if outcome.fingerprints != now:
            raise ConfigError(
                f"{output}: {encoder} has changed since these results were made; delete its "
                f"result files ({path.name} and so on) or choose another --output."
            )


def _check_stores(encoder: str, inputs: Sequence[Input]) -> None:
    """A store must have every input of all files: what it lacks cannot be computed."""
    for name in names_in(encoder):
        if name.startswith(STORE):
            LayersInStore(Store.open(name.removeprefix(STORE))).prepare(inputs)
