"""`elmore index`: every use of the words of a corpus, in a folder for `neighbors` and `senses`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.options import (
    BadBytes,
    Device,
    Errors,
    Lowercase,
    Model,
    OptionsFile,
    Pieces,
    Precision,
    Quiet,
    RunPrecision,
    TokenizeLines,
    VectorPrecision,
)
from elmore.cli.progress import Bar
from elmore.errors import InputError
from elmore.files.text_file import STDIN

if TYPE_CHECKING:
    from elmore.search.corpus_embedding import BuildProgress


def index(
    corpus: Annotated[
        list[Path], typer.Argument(help="One sentence per line; .gz, .xz, .zst too.")
    ],
    model: Model,
    output: Annotated[Path, typer.Option(help="A new folder, or one to continue.")],
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    words: Annotated[
        int, typer.Option(help="Index this many of the most frequent words; 0: all.", min=0)
    ] = 20_000,
    uses: Annotated[int, typer.Option(help="The largest number of uses per word.", min=1)] = 200,
    keep: Annotated[
        str, typer.Option(help="mix (of all layers), the number of a layer, or all.")
    ] = "mix",
    vectors: Annotated[
        VectorPrecision, typer.Option(help="Precision of the stored vectors.")
    ] = VectorPrecision.INT8,
    tokenize: TokenizeLines = False,
    errors: BadBytes = Errors.STRICT,
    device: Device = "auto",
    precision: RunPrecision = Precision.FLOAT32,
    quiet: Quiet = False,
) -> None:
    """Index the uses of the words of a corpus. If stopped, run it again to continue."""
    _check_files(corpus)
    from elmore.embedder import Embedder
    from elmore.files.sentence_files import SentenceFiles
    from elmore.search.index import Index
    from elmore.search.manifest import ModelSource

    embedder = Embedder.load(
        model,
        options=options,
        device=device,
        precision=precision.value,
        pieces=pieces,
        lowercase=lowercase,
    )
    last: list[BuildProgress] = []
    with Bar(quiet) as bar:

        def watch(now: "BuildProgress") -> None:
            last[:] = [now]
            total = now.sentences if now.stage == "embedding" else None
            bar.update(now.read, total, description=now.stage, figures=f"{now.uses:,} uses")

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
                pieces=pieces,
                lowercase=lowercase,
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
