"""`elmore pretrain`: a language model of your own, from any corpus, resumable at any moment."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.embed import Errors

if TYPE_CHECKING:
    from elmore.pretrain.config import PretrainConfig
    from elmore.train.loop import Progress


def pretrain(
    corpus: Annotated[
        list[str], typer.Argument(help="Text files or globs, .gz/.xz/.zst too; a sentence a line.")
    ],
    output: Annotated[Path, typer.Option(help="The run's folder, an Embedder source as it grows.")],
    recipe: Annotated[
        str,
        typer.Option(
            help="elmo-small, elmo-medium, elmo-original, elmo-transformer, elmo-laptop, "
            "or my_runs.py:name."
        ),
    ] = "elmo-laptop",
    valid: Annotated[Path | None, typer.Option(help="Held-out text, for perplexity.")] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Words to predict, one a line; else made from the corpus.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A model to begin with, instead of random numbers.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in --output.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: --set loop.clip=5.")
    ] = None,
    tokenize: Annotated[
        bool, typer.Option("--tokenize", help="Lines are raw text: split sentences and words.")
    ] = False,
    errors: Annotated[
        Errors | None, typer.Option(help="For bytes that are not UTF-8; else as the recipe has it.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after this many steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Stop after reading it so often.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this much training.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, only errors.")] = False,
) -> None:
    """Train a biLM on a corpus. Ctrl-C saves; --resume goes on, to the last bit."""
    from elmore.pretrain.pretrain import pretrain as run

    config = _config(recipe, settings or [], tokenize, errors, steps, epochs, minutes)
    with _display(quiet) as display:
        progress = run(
            corpus,
            output,
            config,
            valid=valid,
            vocabulary=vocabulary,
            source=source,
            resume=resume,
            report=display.step,
            counting=display.counting,
        )
    if display.first:
        done = "finished at" if progress.fraction >= 1 else "at"
        spent = f"{progress.seconds / 60:.1f} minutes"
        print(f"{output}: {done} step {progress.step:,}, {spent}", end="")
        print(f", best perplexity {progress.best:.2f}" if progress.best else "")
    if progress.interrupted:
        stopped = KeyboardInterrupt(progress.interrupted)
        stopped.add_note(f"Saved at step {progress.step:,}; go on with --resume.")
        raise stopped


def _config(
    recipe: str,
    settings: list[str],
    tokenize: bool,
    errors: Errors | None,
    steps: int | None,
    epochs: float | None,
    minutes: float | None,
) -> "PretrainConfig":
    """The recipe, then what the command line changes. One way of ending replaces the recipe's."""
    from elmore.config import override
    from elmore.pretrain.recipes import find_recipe

    changes = list(settings)
    changes += [] if errors is None else [f'reading.errors="{errors.value}"']
    changes += ["reading.tokenize=true"] if tokenize else []
    ends = {"loop.steps": steps, "epochs": epochs, "loop.minutes": minutes}
    if any(end is not None for end in ends.values()):
        changes += [f"{name}={'null' if end is None else end}" for name, end in ends.items()]
    return override(find_recipe(recipe), changes)


class _display:
    """A bar with words per second, both perplexities and the time left; nothing when quiet."""

    def __init__(self, quiet: bool):
        import os

        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bars

        self.first = os.environ.get("RANK", "0") == "0" and not quiet
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}"),
            console=Console(file=sys.stderr),
            disable=not (self.first and sys.stderr.isatty()),
        )
        self.task = self.bars.add_task("counting", total=None, figures="")

    def __enter__(self) -> "_display":
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def counting(self, n_words: int) -> None:
        self.bars.update(self.task, figures=f"{n_words:,} words")

    def step(self, progress: "Progress", figures: dict[str, float]) -> None:
        text = _figures(progress, figures)
        self.bars.update(
            self.task, description="training", total=1.0, completed=progress.fraction, figures=text
        )
        if self.first and not sys.stderr.isatty():
            print(f"step {progress.step:,}  {text}", file=sys.stderr, flush=True)


def _figures(progress: "Progress", figures: dict[str, float]) -> str:
    import math

    if "valid_average" in figures:
        return "  ".join(f"{k.replace('_', ' ')} {v:.2f}" for k, v in figures.items() if "_" in k)
    forward, backward = (math.exp(min(figures[k], 20.0)) for k in ("forward", "backward"))
    speed = progress.words / 2 / max(progress.seconds, 1e-9)
    left = progress.seconds * (1 / max(progress.fraction, 1e-9) - 1)
    return (
        f"perplexity {forward:.1f} → {backward:.1f} ←  {speed:,.0f} words/s  "
        f"{left / 60:.0f} min left"
    )
