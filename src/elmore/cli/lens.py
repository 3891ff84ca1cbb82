"""`elmore lens`: a lens for meaning, for any model and from any text, resumable at any moment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import (
    AsIs,
    BadBytes,
    Corpus,
    Errors,
    LineKind,
    LinesAre,
    Lowercase,
    OptionsFile,
    Pieces,
    Quiet,
    Settings,
    Source,
    Tokenize,
)
from elmore.cli.progress import Bar

if TYPE_CHECKING:
    from elmore.train.loop import Progress


def lens(
    source: Source,
    corpus: Corpus,
    output: Annotated[
        Path | None,
        typer.Option(help="A new folder for the model and its lens; default: the model's own."),
    ] = None,
    layers: Annotated[
        str, typer.Option(help="The layers it maps: top, all, or numbers such as 4,5,6.")
    ] = "top",
    words: Annotated[
        int, typer.Option(help="Words to learn from, drawn from the whole text.", min=1_000)
    ] = 600_000,
    settings: Settings = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    quiet: Quiet = False,
) -> None:
    """Learn a map of a model's layers for comparing meanings. If stopped, run it again."""
    check_files(model=source, corpus=corpus)
    from elmore.checkpoint.bert_config import word_options
    from elmore.config import override
    from elmore.lens.config import LensConfig
    from elmore.lens.run import learn_lens
    from elmore.pretrain.sentences import ReadingConfig

    reading = ReadingConfig(tokenize=tokenize, lines=lines.value, as_is=as_is, errors=errors.value)
    config = LensConfig(layers=layers, words=words, reading=reading)
    with Bar(quiet, transient=False) as bar:
        bar.update(description="reading")
        found = learn_lens(
            source,
            corpus,
            output,
            override(config, settings or []),
            options=options,
            word_options=word_options(lowercase, pieces),
            report=lambda progress, figures: _show(bar, progress, figures),
            sampling=lambda n: bar.update(figures=f"{n:,} lines"),
        )
    progress = found.progress
    if found.lens is None:
        stopped = KeyboardInterrupt(progress.interrupted)
        stopped.add_note(f"Saved at step {progress.step:,}; run it again to continue.")
        raise stopped
    if not quiet:
        spent = f"{found.words:,} words, {progress.seconds / 60:.1f} minutes"
        print(f"{found.target}: {found.lens.described()} ({spent})")


def _show(bar: Bar, progress: "Progress", figures: dict[str, float]) -> None:
    text = f"loss {figures['loss']:.3f}"
    bar.update(progress.fraction, 1.0, description="learning", figures=text)
    if not bar.in_terminal:
        bar.line(f"step {progress.step:,}  {text}  {progress.fraction:.0%}")
