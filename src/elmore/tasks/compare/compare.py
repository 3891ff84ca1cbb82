"""Encoders compared on one task: every encoder, training size and seed is trained once.

A finished training is never repeated; a failed one is noted, and the others go on. Several
processes may work on one folder: each takes a training that no other has, and one that finds
nothing to do because the others have it all says who they are. The trainings are done here, one
after another, or by the workers of a cluster, each of which is such a process.
"""

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname
from typing import Any

from elmore.cluster.address import Place
from elmore.cluster.pool import MOST_TRIES, as_finished
from elmore.cluster.ray_pool import Load, RayPool
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import discard, sweep, write_text
from elmore.files.lock import BusyError, Lock
from elmore.store.store import Store
from elmore.tasks.compare.page import page
from elmore.tasks.compare.peak_memory import forget_peak, peak_bytes
from elmore.tasks.compare.report import Report, summarize
from elmore.tasks.compare.trials import (
    RESULTS,
    SETTINGS,
    CompareConfig,
    Done,
    Failed,
    Trial,
    TrialFiles,
    claim_folder,
    encoder_settings,
    label,
    names_in,
    read_outcomes,
    share,
    stretch_of,
    trial_settings,
    write_outcome,
)
from elmore.tasks.encoded import Input
from elmore.tasks.encoders.encoder import build_encoder
from elmore.tasks.encoders.layer_sources import LayersInStore
from elmore.tasks.encoders.names import STORE
from elmore.tasks.fit import EpochReport, fit, overlap
from elmore.tasks.generation import lm_fingerprints
from elmore.tasks.task import Corpus, all_inputs

CACHE = "cache"
_LOAD = Load(work_bytes=1_000_000_000, result_bytes=0, jobs_of_a_worker=1)  # examples
TABLE, JSON, PAGE = "table.md", "comparison.json", "index.html"


@dataclass(frozen=True, slots=True)
class CompareProgress:
    """Reported during every epoch, and at the end of every training."""

    trial: Trial
    number: int
    """Of this training, from 1."""
    total: int
    epoch: EpochReport | None = None
    outcome: Done | Failed | None = None


Tell = Callable[[CompareProgress], None]


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """A training that was finished before."""


Taken = Done | Failed | AlreadyDone | BusyError
"""What came of a training; the last: another process has it."""


def compare(
    config: CompareConfig,
    output: Path,
    *,
    cache: Path | None = None,
    tell: Tell | None = None,
    place: Place | None = None,
) -> Report:
    """Train what is not finished yet, here or on a cluster. The table, the JSON and the page in
    `output` are written again after every training."""
    task, settings, tell = config.fit.task, config.shared_settings(), tell or (lambda _: None)
    data: dict[str, Corpus[Any]] = {
        name: task.read(path, training=name == "train") for name, path in config.files.items()
    }
    cache = cache or output / CACHE
    run = _Run(config, data, settings, output, cache)
    examples = [example for corpus in data.values() for example in corpus.examples]
    for encoder in config.encoders:
        _check_vectors(encoder, config, output)
        _check_stores(encoder, all_inputs(task, examples))
    claim_folder(settings, output)
    cache.mkdir(parents=True, exist_ok=True)
    for folder in (output, output / RESULTS):
        sweep(folder)
    trials = config.trials()
    all_of = [CompareProgress(trial, i, len(trials)) for i, trial in enumerate(trials, start=1)]
    found = _here(run, all_of, tell) if place is None else _on(place, run, all_of, tell)
    busy = [one for one in found if isinstance(one, BusyError)]
    if busy and not any(isinstance(one, Done | Failed) for one in found):
        raise busy[0]
    return run.report()


def _here(run: "_Run", trainings: list[CompareProgress], tell: Tell) -> list[Taken]:
    return [run.take(at, tell) for at in trainings]


def _on(place: Place, run: "_Run", trainings: list[CompareProgress], tell: Tell) -> list[Taken]:
    """By workers: a training is told of when it ends, by whoever did it."""
    left = [at for at in trainings if not TrialFiles(run.output, at.trial).finished()]
    if not left:
        return []
    found: list[Taken] = []
    with RayPool(_Training(run, Path.cwd()), place, _LOAD) as pool:
        ended: Iterator[tuple[CompareProgress, Taken | None]] = as_finished(left, pool)
        for at, taken in ended:
            outcome = run.lost(at) if taken is None else taken
            found.append(outcome)
            if isinstance(outcome, Done | Failed):
                tell(replace(at, outcome=outcome))
    return found


@dataclass(frozen=True, slots=True)
class _Training:
    """What a worker does with a training: as if the command itself were started there."""

    run: "_Run"
    folder: Path
    """Of the command: names of files may be relative to it."""

    def __call__(self, at: CompareProgress) -> Taken:
        if self.folder.is_dir():
            os.chdir(self.folder)
        if not (self.run.output / SETTINGS).exists():
            raise InputError(
                f"{self.run.output}: a worker on {gethostname()} does not find it; it must "
                "be on storage that all machines have under this name."
            )
        return self.run.take(at, lambda _: None)


@dataclass(frozen=True, slots=True)
class _Run:
    """One process at work on a comparison."""

    config: CompareConfig
    data: dict[str, Corpus[Any]]
    """The files by name: train, dev, test."""
    settings: dict[str, Any]
    """What every training has in common; the digests are of the files as they were read."""
    output: Path
    cache: Path

    def take(self, at: CompareProgress, tell: Tell) -> Taken:
        """Do a training unless it is finished, or another process has it: that one is named."""
        files = TrialFiles(self.output, at.trial)
        if files.finished():
            return AlreadyDone()
        files.work.mkdir(parents=True, exist_ok=True)
        try:
            with Lock(files.work):
                if files.finished():  # it may just have been
                    return AlreadyDone()
                return self._do(files, at, tell)
        except BusyError as error:
            return error

    def _do(self, files: TrialFiles, at: CompareProgress, tell: Tell) -> Done | Failed:
        outcome: Done | Failed
        try:
            outcome = self._train(files, at, tell)
        except Exception as error:  # whatever it is, the other trainings go on
            line = " ".join(f"{type(error).__name__}: {error}".split())
            outcome = Failed(trial=at.trial, error=line, traceback=traceback.format_exc())
        self._write(outcome, files)
        tell(replace(at, outcome=outcome))
        return outcome

    def lost(self, at: CompareProgress) -> Failed:
        """Note a training whose workers died, which cannot say so themselves."""
        line = f"Lost with {MOST_TRIES} workers, one after another; they may need more memory."
        outcome = Failed(trial=at.trial, error=line, traceback="")
        self._write(outcome, TrialFiles(self.output, at.trial))
        return outcome

    def _write(self, outcome: Done | Failed, files: TrialFiles) -> None:
        files.result.parent.mkdir(exist_ok=True)
        write_outcome(outcome, files.result)
        # A comparison keeps figures, not models; a failed training is retried from the beginning.
        discard(files.run)
        self.report()

    def _train(self, files: TrialFiles, at: CompareProgress, tell: Tell) -> Done:
        examples = share(self.data["train"].examples, at.trial)
        counted = forget_peak()
        fitted = fit(
            trial_settings(self.config.fit, at.trial),
            examples,
            self.data["dev"].examples,
            files.run,
            cache=self.cache,
            resume=True,
            report=lambda epoch: tell(replace(at, epoch=epoch)),
        )
        score, encoder = fitted.model.evaluate(self.data["test"].examples), fitted.model.encoder
        return Done(
            trial=at.trial,
            examples=len(examples),
            scores=score.figures,
            notes=(*fitted.notes, *(f"test: {note}" for note in score.notes)),
            dev=fitted.dev.figures,
            epochs=fitted.epochs,
            seconds=fitted.seconds,
            peak=peak_bytes() if counted else None,
            trainable=fitted.n_trained,
            frozen=encoder.n_frozen,
            fingerprints=(*encoder.fingerprints(), *lm_fingerprints(self.config.fit.task)),
            mixes=tuple(encoder.mixes()),
        )

    def report(self) -> Report:
        """Of everything in the folder, also what was compared earlier or by another process."""
        outcomes = [outcome for _, outcome in read_outcomes(self.output)]
        outcomes.sort(key=lambda outcome: _order(outcome.trial, self.config.encoders))
        failures = [outcome for outcome in outcomes if outcome.kind == "failed"]
        names = {name: path.name for name, path in self.config.files.items()}
        settings, notes = {**self.settings, "files": names}, dict.fromkeys(self._notes(outcomes))
        report = Report(self.config.task, settings, summarize(outcomes), failures, tuple(notes))
        write_text(self.output / TABLE, report.markdown())
        write_text(self.output / JSON, report.json())
        write_text(self.output / PAGE, page(report))
        return report

    def _notes(self, outcomes: Sequence[Done | Failed]) -> Iterator[str]:
        """On trainings that are not finished, on the files, and on each finished training."""
        trials = self.config.trials()
        missing = len(set(trials) - {outcome.trial for outcome in outcomes})
        if missing:
            yield f"{missing} of {len(trials)} trainings are not finished; the same command goes on"
        fractions = {*self.config.fractions, *(outcome.trial.fraction for outcome in outcomes)}
        for fraction in sorted(fractions):
            if (times := stretch_of(fraction)) > 1:
                yield (
                    f"with {fraction:g} of the examples, trainings have about {times:.1f} times as "
                    "many epochs, in batches as many times smaller (of one example at least)"
                )
        for name, path in self.config.files.items():
            for note in self.data[name].notes:
                yield f"{path.name}: {note}"
        train, test = self.data["train"].examples, self.data["test"].examples
        for note in overlap(self.config.fit.task, train, test):
            yield f"{self.config.test.name}: {note}"
        for outcome in outcomes:
            fraction = outcome.trial.fraction
            of = "" if fraction == 1 else f" with {fraction:g} of the examples"
            for note in outcome.notes if outcome.kind == "done" else ():
                yield f"{label(outcome.trial.encoder)}{of}: {note}"


def _order(trial: Trial, encoders: Sequence[str]) -> tuple[float, int, str, int]:
    """Rows as they were asked for; encoders of earlier comparisons come after."""
    known = trial.encoder in encoders
    place = encoders.index(trial.encoder) if known else len(encoders)
    return trial.fraction, place, trial.encoder, trial.seed


def _check_vectors(encoder: str, config: CompareConfig, output: Path) -> None:
    """Before hours of work: it can be loaded, and has not changed since finished trainings."""
    built = build_encoder(encoder_settings(config.fit, encoder), ())
    now = (*built.fingerprints(), *lm_fingerprints(config.fit.task))
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
