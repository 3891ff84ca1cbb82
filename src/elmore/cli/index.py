"""`elmore index`: every use of the words of a corpus, in a folder for `neighbors` and `senses`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.options import (
    AsIs,
    BadBytes,
    Corpus,
    Device,
    Errors,
    LineKind,
    LinesAre,
    Model,
    OptionsFile,
    Precision,
    Quiet,
    RunPrecision,
    Tokenize,
    VectorPrecision,
)
from elmore.cli.progress import Bar

if TYPE_CHECKING:
    from elmore.search.corpus_embedding import BuildProgress


def index(
    corpus: Corpus,
    model: Model,
    output: Annotated[Path, typer.Option(help="A new folder, or one to continue.")],
    options: OptionsFile = None,
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
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    device: Device = "auto",
    precision: RunPrecision = Precision.FLOAT32,
    quiet: Quiet = False,
) -> None:
    """Index the uses of the words of a corpus. If stopped, run it again to continue."""
    from elmore.embedder import Embedder
    from elmore.files.sentence_files import SentenceFiles
    from elmore.files.text_file import find_files
    from elmore.search.index import Index
    from elmore.search.manifest import ModelSource

    text = SentenceFiles(find_files(corpus), tokenize, errors.value, lines=lines.value, as_is=as_is)
    embedder = Embedder.load(model, options=options, device=device, precision=precision.value)
    last: list[BuildProgress] = []
    with Bar(quiet) as bar:

        def watch(now: "BuildProgress") -> None:
            last[:] = [now]
            total = now.sentences if now.stage == "embedding" else None
            bar.update(now.read, total, description=now.stage, figures=f"{now.uses:,} uses")

        made = Index.build(
            text,
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
