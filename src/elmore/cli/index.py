"""`elmore index`: every use of a corpus's words, in a folder for `neighbors` and `senses`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.embed import Errors
from elmore.cli.embed import Precision as Arithmetic
from elmore.cli.store import Precision
from elmore.errors import InputError
from elmore.files.text_file import STDIN

if TYPE_CHECKING:
    from elmore.search.build import BuildProgress


def index(
    corpus: Annotated[list[Path], typer.Argument(help="A sentence a line; .gz, .xz, .zst too.")],
    model: Annotated[str, typer.Option(help="A shipped name, a folder, or a weight file.")],
    output: Annotated[Path, typer.Option(help="The folder to make, or to go on with.")],
    options: Annotated[
        Path | None, typer.Option(help="The options file, if not beside the weights.")
    ] = None,
    words: Annotated[int, typer.Option(help="The most frequent ones; 0: all.", min=0)] = 20_000,
    uses: Annotated[int, typer.Option(help="Of each word, at most.", min=1)] = 200,
    keep: Annotated[
        str, typer.Option(help="mix (of all layers), a layer's number, or all.")
    ] = "mix",
    vectors: Annotated[Precision, typer.Option(help="How they are kept.")] = Precision.INT8,
    tokenize: Annotated[
        bool, typer.Option("--tokenize", help="Lines are raw text, not words between spaces.")
    ] = False,
    errors: Annotated[Errors, typer.Option(help="For bytes that are not UTF-8.")] = Errors.STRICT,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        Arithmetic, typer.Option(help="int8 is faster and off by about a hundredth.")
    ] = Arithmetic.FLOAT32,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Index the uses of a corpus's words. Stopped at any moment, run it again to go on."""
    _check_files(corpus)
    from elmore.embedder import Embedder
    from elmore.files.sentence_files import SentenceFiles
    from elmore.search.index import Index
    from elmore.search.manifest import ModelSource

    embedder = Embedder.load(model, options=options, device=device, precision=precision.value)
    last: list[BuildProgress] = []
    with _bar(quiet) as show:

        def watch(now: "BuildProgress") -> None:
            last[:] = [now]
            show(now)

        made = Index.build(
            SentenceFiles(corpus, tokenize, errors.value),
            embedder,
            output,
            keep=keep,
            words=words or None,
            max_uses=uses,
            precision=vectors.value,
            source=ModelSource(
                name=str(Path(model).resolve()) if Path(model).exists() else model,
                options=None if options is None else str(options.resolve()),
                precision=precision.value,
            ),
            progress=watch,
        )
    if not quiet:
        size = sum(path.stat().st_size for path in output.rglob("*"))
        print(
            f"{made.n_uses:,} uses of {len(made.words):,} words in {made.n_sentences:,} sentences, "
            f"{size / 1e6:,.1f} MB in {output}; {last[0].words:,} words embedded, "
            f"{last[0].seconds:.1f} s",
            file=sys.stderr,
        )


def _check_files(corpus: list[Path]) -> None:
    for path in corpus:
        if str(path) == STDIN:
            raise InputError("The corpus is read twice; give files, not -.")
        if not path.is_file():
            raise InputError(f"{path}: no such file.")


@contextmanager
def _bar(quiet: bool) -> Iterator[Callable[["BuildProgress"], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description:<14}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[uses]:,} uses"),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, uses=0)

        def show(now: "BuildProgress") -> None:
            total = now.sentences if now.stage == "embedding" else None
            bar.update(task, description=now.stage, total=total, completed=now.read, uses=now.uses)

        yield show
