"""`elmore pretrain`: a language model of your own, from any corpus, resumable at any moment."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import AsIs, Corpus, Errors, LinesAsked, Quiet, Settings, Tokenize
from elmore.cli.progress import Bar

if TYPE_CHECKING:
    from elmore.train.loop import Progress

_BEST = {
    "masked": "loss",
    "context2vec": "loss",
    "sgns": "share told apart",
    "glove": "share told apart",
}


def pretrain(
    corpus: Corpus,
    output: Annotated[
        Path, typer.Option(help="The folder of the run; it can be loaded as a model at any time.")
    ],
    recipe: Annotated[
        str,
        typer.Option(
            help="elmo-laptop, bert-laptop, causal-laptop, sgns … (docs/pretraining.md), or "
            "my_runs.py:name."
        ),
    ] = "elmo-laptop",
    valid: Annotated[Path | None, typer.Option(help="Held-out text, for perplexity.")] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Words to predict, one per line; default: the corpus's.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A model to start from, instead of random weights.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue the run in --output.")] = False,
    settings: Settings = None,
    tokenize: Tokenize = False,
    lines: LinesAsked = None,
    as_is: AsIs = False,
    errors: Annotated[
        Errors | None, typer.Option(help="For bytes that are not UTF-8; default: the recipe's.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after this many steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Stop after this many epochs.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Stop training after so many minutes; counting and the last validation are extra."
        ),
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the curves of the run: curve.png in its folder.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a language model on a corpus. Ctrl-C saves; --resume continues with the same bits."""
    check_files(model=source, corpus=corpus)
    from elmore.config import override
    from elmore.pretrain.curve import check_installed, draw_curve
    from elmore.pretrain.recipes import find_recipe
    from elmore.pretrain.run import pretrain as run

    if plot:
        check_installed()
    changes = list(settings or [])
    changes += [] if errors is None else [f'reading.errors="{errors.value}"']
    changes += ["reading.tokenize=true"] if tokenize else []
    changes += [] if lines is None else [f'reading.lines="{lines.value}"']
    changes += ["reading.as_is=true"] if as_is else []
    ends = {"loop.steps": steps, "epochs": epochs, "loop.minutes": minutes}
    if any(end is not None for end in ends.values()):  # one end replaces all ends of the recipe
        changes += [f"{name}={'null' if end is None else end}" for name, end in ends.items()]
    config = override(find_recipe(recipe), changes)
    kind: str = config.kind
    if config.kind == "bilm" and config.softmax.kind == "sampled":
        kind = "sampled"
    quiet = quiet or os.environ.get("RANK", "0") != "0"  # one process speaks for all
    with Bar(quiet, transient=False) as bar:
        bar.update(description="counting")
        progress = run(
            corpus,
            output,
            config,
            valid=valid,
            vocabulary=vocabulary,
            source=source,
            resume=resume,
            report=lambda progress, figures: _show(bar, progress, figures, kind),
            counting=_counter(bar),
            tell=lambda text: bar.line(f"note: {text}"),
        )
    if plot and os.environ.get("RANK", "0") == "0":
        draw_curve(output)
    if not quiet:
        done = "finished at" if progress.fraction >= 1 else "at"
        spent = f"{progress.seconds / 60:.1f} minutes"
        print(f"{output}: {done} step {progress.step:,}, {spent}", end="")
        name = _BEST.get(kind, "perplexity")
        best = f", best {name} {progress.best or 0:.2f} at step {progress.best_step or 0:,}"
        print("" if progress.best is None else best)
    if progress.interrupted:
        stopped = KeyboardInterrupt(progress.interrupted)
        stopped.add_note(f"Saved at step {progress.step:,}; continue with --resume.")
        raise stopped


def _counter(bar: Bar) -> Callable[[int, str], None]:
    """Shows how many words or pieces there are so far. A log has no bar: there, a line at once, and
    then one per minute."""
    due = 0.0

    def show(n: int, what: str) -> None:
        nonlocal due
        bar.update(figures=f"{n:,} {what}")
        if not bar.in_terminal and time.monotonic() >= due:
            bar.line(f"counting  {n:,} {what} so far")
            due = time.monotonic() + 60

    return show


def _show(bar: Bar, progress: "Progress", figures: dict[str, float], kind: str) -> None:
    text = _figures(progress, figures, kind)
    bar.update(progress.fraction, 1.0, description="training", figures=text)
    if not bar.in_terminal:  # where no bar shows the time that is left
        left = progress.seconds * (1 / max(progress.fraction, 1e-9) - 1)
        validated = any(name.startswith("valid") for name in figures)
        rest = "" if validated else f"  {left / 60:.0f} min left"
        bar.line(f"step {progress.step:,}  {text}{rest}")


def _figures(progress: "Progress", figures: dict[str, float], kind: str) -> str:
    if found := {k: v for k, v in figures.items() if k.startswith("valid")}:
        return "  ".join(f"{k.replace('_', ' ')} {v:.2f}" for k, v in found.items())
    if "mlm" in figures:
        masked = f"masked pieces: loss {figures['mlm']:.2f}, {figures['mlm_accuracy']:.1%} right"
        pairs = f"; pairs {figures['nsp_accuracy']:.1%} right" if "nsp" in figures else ""
        return masked + pairs
    speed = progress.words / max(progress.seconds, 1e-9)
    if kind in ("sgns", "glove", "context2vec"):
        unit = "words" if kind == "context2vec" else "pairs"
        return f"loss {figures['loss']:.3f}  {speed:,.0f} {unit}/s"
    if "forward" not in figures:  # a causal model
        loss = figures.get("cross_entropy", figures["loss"])  # without penalties
        return f"perplexity {math.exp(min(loss, 20.0)):.1f}  {speed:,.0f} pieces/s"
    forward, backward = (math.exp(min(figures[k], 20.0)) for k in ("forward", "backward"))
    # over the samples alone it is far lower than the model's perplexity
    name = "sampled perplexity" if kind == "sampled" else "perplexity"
    part = "  softmax only" if figures.get("softmax_alone") else ""
    return f"{name} {forward:.1f} → {backward:.1f} ←{part}  {speed / 2:,.0f} words/s"
