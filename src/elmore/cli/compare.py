"""`elmore compare`: the same task with and without pretrained vectors, in one table and a page."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.options import Cache, Dev, Epochs, FineTune, On, Quiet, Settings, Train, Workers
from elmore.cli.task import (
    EpochBar,
    Name,
    SourceLM,
    TargetLM,
    configured,
    from_language_models,
)
from elmore.cluster.address import place_of

if TYPE_CHECKING:
    from elmore.tasks.compare.compare import CompareProgress

SOME_FAILED = 1


def compare(
    name: Name,
    encoders: Annotated[
        str,
        typer.Option(
            help="As in `task train`, with commas: none,glove:F,bert:DIR+tune; or none,both."
        ),
    ],
    train: Train,
    dev: Dev,
    test: Annotated[Path, typer.Option(help="Examples to score on.")],
    output: Annotated[Path, typer.Option(help="The folder for results, table and page.")],
    fractions: Annotated[
        str, typer.Option(help="Fractions of --train to train on, such as 0.01,0.1,1.")
    ] = "1",
    source_lm: SourceLM = None,
    target_lm: TargetLM = None,
    seeds: Annotated[int, typer.Option(help="Training runs per encoder and fraction.")] = 3,
    epochs: Epochs = None,
    fine_tune: FineTune = False,
    settings: Settings = None,
    cache: Cache = None,
    on: On = None,
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Train with every encoder and several seeds. If it stops, run it again to continue; two
    running at once share the work."""
    from pydantic import ValidationError

    from elmore.config import one_line
    from elmore.errors import ConfigError
    from elmore.tasks.compare.compare import PAGE
    from elmore.tasks.compare.compare import compare as run
    from elmore.tasks.compare.trials import CompareConfig

    place = place_of(on, workers)
    lms = from_language_models(source_lm, target_lm)
    given = {
        "task": name,
        "fit": configured(name, [*lms, *(settings or [])], epochs, fine_tune),
        "train": train,
        "dev": dev,
        "test": test,
        "encoders": [part.strip() for part in encoders.split(",")],
        "fractions": [part.strip() for part in fractions.split(",")],
        "seeds": seeds,
    }
    try:
        config = CompareConfig.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"{one_line(error)}.") from None
    with EpochBar(quiet, if_stopped="Run it again to continue.") as bar:
        report = run(config, output, cache=cache, tell=lambda now: _tell(bar, now), place=place)
    for note in report.notes if not quiet else ():
        print(note, file=sys.stderr)
    print(report.markdown(), end="")
    if not quiet:
        print(f"\n{output / PAGE}")
    asked = set(config.trials())
    failures = [failed for failed in report.failures if failed.trial in asked]
    for failed in failures:
        trial = failed.trial
        where = f"{trial.encoder}, {trial.fraction:g} of the examples, seed {trial.seed}"
        print(f"elmore: {where}: {failed.error}", file=sys.stderr)
    if failures:
        raise typer.Exit(SOME_FAILED)


def _tell(bar: EpochBar, now: "CompareProgress") -> None:
    from elmore.tasks.compare.trials import Done, label

    trial = now.trial
    what = f"{now.number}/{now.total} {label(trial.encoder)} {trial.fraction:g} #{trial.seed}: "
    if now.epoch is not None:
        bar.epoch(now.epoch, what)
    match now.outcome:
        case Done(scores=scores):
            figures = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
            bar.line(f"{what}test {figures}")
        case None:
            pass
        case failed:
            bar.line(f"{what}FAILED, {failed.error}")
