"""`elmore index`: every use of the words of a corpus, in a folder for `neighbors` and `senses`.
`elmore index CORPUS` is short for `elmore index build CORPUS`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from elmore.cli.default_model import model_for
from elmore.cli.early import check_files
from elmore.cli.options import (
    AsIs,
    BadBytes,
    Corpus,
    Device,
    Errors,
    IndexFolder,
    LineKind,
    LinesAre,
    Lowercase,
    ModelOfText,
    On,
    OptionsFile,
    Pieces,
    Precision,
    Quiet,
    RunPrecision,
    Tokenize,
    VectorPrecision,
    Workers,
)
from elmore.cli.progress import Bar
from elmore.cluster.address import place_of
from elmore.errors import ConfigError, FormatError, InputError

if TYPE_CHECKING:
    from elmore.search.corpus_embedding import BuildProgress
    from elmore.search.index import Index

_SHOWN_DAMAGES = 20
_MANY_SEGMENTS = 10  # more make a search slow
_FIXED = ("words", "uses", "keep", "vectors")  # options that --add takes from the index


class _BuildUnlessNamed(TyperGroup):
    """`build` is the command if none is named."""

    def parse_args(self, context: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        named = bool(args) and args[0] in self.commands
        return super().parse_args(context, args if named else ["build", *args])


index = typer.Typer(
    cls=_BuildUnlessNamed, help="Index the uses of words, for search.", rich_markup_mode=None
)


@index.command(
    epilog="An index can also be checked and merged: elmore index verify, elmore index compact."
)
def build(
    context: typer.Context,
    corpus: Corpus,
    output: Annotated[Path, typer.Option(help="A new folder, or one to continue.")],
    model: ModelOfText = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    words: Annotated[
        int, typer.Option(help="Index this many of the most frequent words; 0: all.", min=0)
    ] = 20_000,
    uses: Annotated[int, typer.Option(help="The largest number of uses per word.", min=1)] = 200,
    keep: Annotated[
        str | None,
        typer.Option(
            help="meaning (default with a lens), mix (of all layers), a layer's number, or all."
        ),
    ] = None,
    vectors: Annotated[
        VectorPrecision, typer.Option(help="Precision of the stored vectors.")
    ] = VectorPrecision.INT8,
    add: Annotated[
        bool, typer.Option("--add", help="Add the new sentences to an existing index.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing index when the new one is ready.")
    ] = False,
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    device: Device = "auto",
    precision: RunPrecision = Precision.FLOAT32,
    on: On = None,
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Index the uses of the words of a corpus. If stopped, run it again to continue."""
    place = place_of(on, workers)
    _check(context, add=add, force=force)
    check_files(model=model, corpus=corpus)
    from elmore.cluster.pooled_embedder import embedder_on
    from elmore.embedder import Embedder
    from elmore.files.sentence_files import SentenceFiles
    from elmore.files.text_file import find_files
    from elmore.search.index import Index
    from elmore.search.manifest import ModelSource
    from elmore.search.replace import replace, restore

    paths = find_files(corpus)
    model = model_for(model, paths, quiet=quiet)
    sentences = SentenceFiles(paths, tokenize, errors.value, lines=lines.value, as_is=as_is)
    restore(output)
    if add:
        _check_complete(output)
    embedder = Embedder.load(
        model,
        options=options,
        device=device,
        precision=precision.value,
        pieces=pieces,
        lowercase=lowercase,
    )
    last: list[BuildProgress] = []

    def make(target: Path) -> None:
        Index.build(
            sentences,
            source,
            target,
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

    with Bar(quiet) as bar, embedder_on(place, embedder, told=bar.line) as source:
        watch = _watch(bar, last)
        if add:
            Index.open(output, source).add(sentences, progress=watch)
        elif force and output.exists():
            replace(output, make)
        else:
            make(output)
    if not quiet:
        _report(Index.open(output), last)


@index.command()
def verify(folder: IndexFolder) -> None:
    """Compare everything with its checksum and list what is damaged."""
    from elmore.search.verify import verify as compare

    verdict = compare(folder)
    for damage in verdict.damages[:_SHOWN_DAMAGES]:
        print(damage)
    if len(verdict.damages) > _SHOWN_DAMAGES:
        print(f"and {len(verdict.damages) - _SHOWN_DAMAGES:,} more")
    if verdict.damages:
        raise FormatError(
            f"{folder}: {len(verdict.damages):,} files are damaged; restore them from a copy, or "
            "build the index again."
        )
    size = f"{verdict.bytes / 1e6:,.1f} MB"
    told = "all intact"
    if verdict.unchecked:
        without = ", ".join(verdict.unchecked)
        told = f"no checksums in {without}; `elmore index compact {folder}` adds them"
    print(f"{verdict.uses:,} uses in {verdict.sentences:,} sentences, {size}: {told}")


@index.command()
def compact(folder: IndexFolder, quiet: Quiet = False) -> None:
    """Merge what was added and remove what was deleted, so that searches are fast again."""
    from elmore.search.index import Index

    found = Index.open(folder)
    found.compact()
    if not quiet:
        _report(found, [])


def _check(context: typer.Context, *, add: bool, force: bool) -> None:
    """Errors that can be found before the model is loaded."""
    if add and force:
        raise ConfigError("--add keeps the index and --force replaces it; give one of them.")
    for name in _FIXED if add else ():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"--{name} cannot be given with --add: the index has its own.")


def _check_complete(output: Path) -> None:
    from elmore.search.manifest import read_manifest

    if not read_manifest(output).reading.complete:
        raise InputError(f"{output}: its build was stopped; finish it without --add first.")


def _watch(bar: Bar, last: "list[BuildProgress]") -> "Callable[[BuildProgress], None]":
    def watch(now: "BuildProgress") -> None:
        last[:] = [now]
        total = now.sentences if now.stage == "embedding" else None
        bar.update(now.read, total or None, description=now.stage, figures=f"{now.uses:,} uses")

    return watch


def _report(made: "Index", last: "list[BuildProgress]") -> None:
    size = sum(path.stat().st_size for path in made.path.rglob("*"))
    work = "".join(f"; {now.words:,} words embedded, {now.seconds:.1f} s" for now in last)
    print(
        f"{made.n_uses:,} uses of {len(made.words):,} words in {made.n_sentences:,} sentences, "
        f"{size / 1e6:,.1f} MB in {made.path}{work}",
        file=sys.stderr,
    )
    if (n := len(made.manifest.segments)) > _MANY_SEGMENTS:
        print(f"{n} segments; `elmore index compact {made.path}` merges them.", file=sys.stderr)
