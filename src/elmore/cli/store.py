"""`elmore store`: the vectors of a text in a folder that can be filled, inspected, verified, merged
and exported.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.default_model import model_for
from elmore.cli.early import check_files
from elmore.cli.options import (
    AsIs,
    BadBytes,
    Device,
    Errors,
    LineKind,
    LinesAre,
    Lowercase,
    ModelOfText,
    On,
    OptionsFile,
    Pieces,
    Quiet,
    SentenceFile,
    Tokenize,
    VectorPrecision,
    Workers,
)
from elmore.cli.progress import Bar, text_bytes
from elmore.cluster.address import place_of
from elmore.errors import ConfigError, FormatError
from elmore.files.sentence_files import SentenceFiles
from elmore.files.text_file import STDIN, find_files

if TYPE_CHECKING:
    from elmore.embedder import Embedder
    from elmore.store.keep import KeepAsked
    from elmore.store.store import Store

store = typer.Typer(help="Embed once, keep it small, read it fast.", rich_markup_mode=None)

_PROJECTION = "pca:"
_SAMPLE_WORDS = 20_000
_SHOWN_DAMAGES = 20

Folder = Annotated[Path, typer.Argument(help="The folder of the store.")]


@store.command()
def fill(
    text: SentenceFile,
    folder: Folder,
    model: ModelOfText = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="all (default), top, average, meaning, numbers (0,2), mix:0.2,0.5,0.3, or pca:256."
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="The scale of the mix, 1 by default.")] = None,
    precision: Annotated[VectorPrecision | None, typer.Option(help="float32 by default.")] = None,
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    device: Device = "auto",
    on: On = None,
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Add the sentences of a text, each once. If stopped, run it again to continue."""
    place = place_of(on, workers)
    check_files(model=model, text=text)
    from elmore.cluster.pooled_embedder import embedder_on
    from elmore.embedder import Embedder
    from elmore.store.store import Store

    paths = find_files([text], read_once=True)
    _check_choice(folder, keep, gamma, precision)
    sentences = SentenceFiles(paths, tokenize, errors.value, lines=lines.value, as_is=as_is)
    embedder = Embedder.load(
        model_for(model, paths, quiet=quiet),
        options=options,
        device=device,
        pieces=pieces,
        lowercase=lowercase,
    )
    with Bar(quiet) as bar, embedder_on(place, embedder, told=bar.line) as source:
        if not folder.exists():
            choice = _choice(keep or "all", gamma, source, text, sentences)
            kept = precision or VectorPrecision.FLOAT32
            target = Store.create(folder, source, keep=choice, precision=kept.value)
        else:
            target = _opened(folder, source, keep, gamma)
        reading, n_bytes = _Counted(sentences), text_bytes(paths)
        report = target.fill(reading, lambda _: bar.update(reading.bytes, n_bytes))
    if not quiet:
        speed = report.added_words / max(report.seconds, 1e-9)
        print(
            f"{report.added:,} sentences added ({report.added_words:,} words), "
            f"{report.repeated:,} there already, {report.seconds:.1f} s, {speed:,.0f} words/s, "
            f"{len(target):,} sentences and {_size(_disk(folder))} in {folder}",
            file=sys.stderr,
        )


@store.command()
def info(folder: Folder) -> None:
    """Show what a store holds, and how much space it saves."""
    from elmore.store.store import Store

    found = Store.open(folder)
    manifest, on_disk = found.manifest, _disk(folder)
    full = manifest.words * manifest.n_layers * manifest.dim * 4
    rows = [
        ("model", f"{manifest.fingerprint[:12]}, {manifest.n_layers} layers × {manifest.dim}"),
        ("keeps", manifest.keep.described()),
        ("precision", manifest.precision),
        ("sentences", f"{len(found):,}"),
        ("words", f"{manifest.words:,}"),
        ("shards", f"{len(manifest.shards):,}"),
        ("on disk", f"{_size(on_disk)}, {on_disk / max(1, manifest.words):,.1f} bytes per word"),
        ("full float32", f"{_size(full)}, {full / max(1, on_disk):,.1f} times as much"),
    ]
    for name, value in rows:
        print(f"{name:<14}{value}")


@store.command()
def verify(folder: Folder) -> None:
    """Compare everything with its checksum and list what is damaged."""
    from elmore.store.store import Store

    verdict = Store.open(folder).verify()
    for damage in verdict.damages[:_SHOWN_DAMAGES]:
        print(damage)
    if len(verdict.damages) > _SHOWN_DAMAGES:
        print(f"and {len(verdict.damages) - _SHOWN_DAMAGES:,} more")
    if verdict.damages and verdict.is_table_only:
        raise FormatError(
            f"{folder}: its hash table is damaged, but none of its {verdict.sentences:,} sentences;"
            " `elmore store fill` with the same model and any text builds it again."
        )
    if verdict.damages:
        raise FormatError(
            f"{folder}: {verdict.damaged_sentences:,} of {verdict.sentences:,} sentences are "
            f"damaged; copy the others with `elmore store merge {folder} NEW`, then fill NEW."
        )
    print(f"{verdict.sentences:,} sentences, {_size(verdict.bytes)}: all intact")


@store.command()
def export(
    folder: Folder,
    target: Annotated[
        Path, typer.Argument(help="x.hdf5 (AllenNLP's layout), x.parquet or x.arrow.")
    ],
    quiet: Quiet = False,
) -> None:
    """Write a store as a file that other programs read."""
    from elmore.store.export import export as write
    from elmore.store.store import Store

    found = Store.open(folder)
    with Bar(quiet) as bar:
        write(found, target, lambda number: bar.update(number + 1, len(found)))
    if not quiet:
        size = _size(target.stat().st_size)
        print(f"{len(found):,} sentences, {size} in {target}", file=sys.stderr)


@store.command()
def merge(
    sources: Annotated[
        list[Path], typer.Argument(help="Stores with the same model and the same --keep.")
    ],
    target: Annotated[Path, typer.Argument(help="A new store, or one to add to.")],
    quiet: Quiet = False,
) -> None:
    """Merge stores, each sentence once; damaged sentences are left out and listed."""
    from elmore.store.merge import merge as join
    from elmore.store.store import Store

    total = sum(len(Store.open(source)) for source in sources)
    with Bar(quiet) as bar:
        report = join(sources, target, lambda now: bar.update(now.added + now.repeated, total))
    for source, damage in report.left_out[:_SHOWN_DAMAGES]:
        print(f"left out: {source}/{damage}", file=sys.stderr)
    if not quiet:
        print(
            f"{report.added:,} sentences added, {report.repeated:,} there already, "
            f"{len(report.left_out):,} damaged ones left out, in {target}",
            file=sys.stderr,
        )


@store.command()
def plan(
    text: SentenceFile,
    model: ModelOfText = None,
    options: OptionsFile = None,
    lowercase: Lowercase = None,
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
) -> None:
    """Show how large each choice would be, before anything is computed."""
    check_files(model=model, text=text)
    from elmore.checkpoint.bert_config import word_options
    from elmore.checkpoint.sources import load
    from elmore.store.sizes import count, hdf5_bytes
    from elmore.store.sizes import plan as sizes

    paths = find_files([text], read_once=True)
    model = model_for(model, paths, quiet=False)
    found = load(model, options=options, words=word_options(lowercase)).model
    counts = count(SentenceFiles(paths, tokenize, errors.value, lines=lines.value, as_is=as_is))
    whole = hdf5_bytes(counts, found.n_layers, found.dim)
    print(f"{counts.sentences:,} sentences, {counts.words:,} words in the text")
    print(f"{counts.distinct_sentences:,} sentences, {counts.distinct_words:,} words distinct")
    print(f"\n{'keep':<28}{'precision':<11}{'bytes per word':>14}{'size':>12}{'smaller':>10}")
    word = found.n_layers * found.dim * 4
    print(f"{'AllenNLP HDF5, all repeated':<28}{'float32':<11}{word:>14,}{_size(whole):>12}")
    for size in sizes(counts, found.n_layers, found.dim):
        times = f"{whole / max(1, size.bytes):,.1f}×"
        print(
            f"{size.keep:<28}{size.precision:<11}{size.word_bytes:>14,}"
            f"{_size(size.bytes):>12}{times:>10}"
        )


def _check_choice(
    folder: Path, keep: str | None, gamma: float | None, precision: VectorPrecision | None
) -> None:
    """Errors that can be found before the model is loaded."""
    if gamma is not None and not (keep or "").startswith("mix:"):
        raise ConfigError("--gamma is the scale of a mix; give it with --keep mix:...")
    if folder.exists():
        from elmore.store.layout import read_manifest

        there = read_manifest(folder).precision
        if precision is not None and precision.value != there:
            raise ConfigError(
                f"{folder}: its precision is {there}, not {precision.value}; remove --precision."
            )


def _opened(folder: Path, embedder: "Embedder", keep: str | None, gamma: float | None) -> "Store":
    """A store to continue: it must keep what was asked for."""
    from elmore.embedding import Mix
    from elmore.store.keep import KeepProjection, keep_of
    from elmore.store.store import Store

    found = Store.open(folder, embedder)
    if keep is None:
        return found
    match found.keep:
        case KeepProjection(dim=dim):
            same = keep == f"{_PROJECTION}{dim}"
        case Mix(gamma=there) if keep.startswith("mix:"):
            scale = {"gamma": there if gamma is None else gamma}
            kept = keep_of(keep, embedder.n_layers, embedder.lens)
            same = kept.model_copy(update=scale) == found.keep
        case _:
            same = (
                not keep.startswith(_PROJECTION)
                and keep_of(keep, embedder.n_layers, embedder.lens) == found.keep
            )
    if not same:
        raise ConfigError(
            f"{folder}: it keeps {found.keep.described()}, not {keep}; remove --keep, or choose "
            "another folder."
        )
    return found


def _choice(
    keep: str, gamma: float | None, embedder: "Embedder", text: str, sample: Iterable[list[str]]
) -> "KeepAsked":
    """The option as the library takes it; a projection is learned from the start of the text."""
    from elmore.embedding import Mix
    from elmore.store.keep import Projection, keep_of

    if not keep.startswith(_PROJECTION):
        kept = keep_of(keep, embedder.n_layers, embedder.lens)
        scale = 1.0 if gamma is None else gamma
        return kept.model_copy(update={"gamma": scale}) if isinstance(kept, Mix) else keep
    number = keep.removeprefix(_PROJECTION)
    if not number.isdecimal():
        raise ConfigError(f"keep is {keep!r}; expected a number, such as {_PROJECTION}256.")
    if text == STDIN:
        raise ConfigError("A projection is first learned from the text; use a file, not -.")
    return Projection.learn(embedder.stream(_first_words(sample, _SAMPLE_WORDS)), int(number))


def _first_words(sentences: Iterable[list[str]], n_words: int) -> Iterator[list[str]]:
    for sentence in sentences:
        yield sentence
        n_words -= len(sentence)
        if n_words <= 0:
            return


class _Counted:
    """Sentences, and roughly how many bytes of the text have been read."""

    def __init__(self, sentences: Iterable[list[str]]):
        self._sentences, self.bytes = sentences, 0

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self._sentences:
            self.bytes += sum(len(word) + 1 for word in sentence)
            yield sentence


def _disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes} bytes"
