"""`elmore store`: a text's vectors in a folder that is filled, looked at, checked, put together and
exported. The work is the store room's; here it is asked for and told of.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.embed import Errors
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.files.text_file import COMPRESSED, STDIN

if TYPE_CHECKING:
    from elmore.embedder import Embedder
    from elmore.store.fill import FillProgress
    from elmore.store.keep import Choice
    from elmore.store.store import Store

store = typer.Typer(help="Embed once, keep it small, read it fast.", rich_markup_mode=None)

_PROJECTION = "pca:"
_SAMPLE_WORDS = 20_000
_SHOWN_DAMAGES = 20


class Precision(StrEnum):
    """How numbers are kept."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"


Text = Annotated[str, typer.Argument(help="One sentence a line (.gz, .xz, .zst too), or -.")]
Folder = Annotated[Path, typer.Argument(help="The store's folder.")]
Model = Annotated[str, typer.Option(help="A shipped name, a folder, or a weight file.")]
Options = Annotated[Path | None, typer.Option(help="The options file, if not beside the weights.")]
Tokenize = Annotated[
    bool, typer.Option("--tokenize", help="Lines are raw text, not words between spaces.")
]
BadBytes = Annotated[Errors, typer.Option(help="For bytes that are not UTF-8.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")]


@store.command()
def fill(
    text: Text,
    folder: Folder,
    model: Model,
    options: Options = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="all (default), top, average, numbers: 0,2, mix:0.2,0.5,0.3, or pca:256."
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="The mix's scale, 1 by default.")] = None,
    precision: Annotated[Precision | None, typer.Option(help="float32 by default.")] = None,
    tokenize: Tokenize = False,
    errors: BadBytes = Errors.STRICT,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    quiet: Quiet = False,
) -> None:
    """Add the sentences of a text, each once. Stopped at any moment, run it again to go on."""
    from elmore.embedder import Embedder

    if text != STDIN and not Path(text).exists():
        raise InputError(f"{text}: no such file.")
    _check_choice(folder, keep, gamma, precision)
    sentences = SentenceFiles([text], tokenize, errors.value)
    embedder = Embedder.load(model, options=options, device=device)
    if not folder.exists():
        choice = _choice(keep or "all", gamma, embedder, text, sentences)
        target = _created(folder, embedder, choice, precision or Precision.FLOAT32)
    else:
        target = _opened(folder, embedder, keep, gamma)
    with _filling_bar(text, quiet) as (counted, show):
        report = target.fill(counted(sentences), show)
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
    """What a store holds, and what it saves."""
    from elmore.store.keep import described
    from elmore.store.store import Store

    found = Store.open(folder)
    manifest, on_disk = found.manifest, _disk(folder)
    full = manifest.words * manifest.n_layers * manifest.dim * 4
    rows = [
        ("model", f"{manifest.fingerprint[:12]}, {manifest.n_layers} layers × {manifest.dim}"),
        ("keeps", described(manifest.keep)),
        ("precision", manifest.precision),
        ("sentences", f"{len(found):,}"),
        ("words", f"{manifest.words:,}"),
        ("shards", f"{len(manifest.shards):,}"),
        ("on disk", f"{_size(on_disk)}, {on_disk / max(1, manifest.words):,.1f} bytes a word"),
        ("full float32", f"{_size(full)}, {full / max(1, on_disk):,.1f} times as much"),
    ]
    for name, value in rows:
        print(f"{name:<14}{value}")


@store.command()
def verify(folder: Folder) -> None:
    """Compare everything with its checksum; what is damaged is named."""
    from elmore.store.store import Store

    verdict = Store.open(folder).verify()
    for damage in verdict.damages[:_SHOWN_DAMAGES]:
        print(damage)
    if len(verdict.damages) > _SHOWN_DAMAGES:
        print(f"and {len(verdict.damages) - _SHOWN_DAMAGES:,} more")
    if verdict.damages:
        raise FormatError(
            f"{folder}: {verdict.damaged_sentences:,} of {verdict.sentences:,} sentences are "
            f"damaged; copy the others with `elmore store merge {folder} NEW`, then fill NEW."
        )
    print(f"{verdict.sentences:,} sentences, {_size(verdict.bytes)}: all sound")


@store.command()
def export(
    folder: Folder,
    target: Annotated[Path, typer.Argument(help="x.hdf5 (AllenNLP's layout), .parquet, .arrow.")],
    quiet: Quiet = False,
) -> None:
    """Write a store as a file that other programs read."""
    from elmore.store.export import export as write
    from elmore.store.store import Store

    found = Store.open(folder)
    with _bar(len(found), quiet) as advance:
        write(found, target, lambda number: advance(number + 1))
    if not quiet:
        size = _size(target.stat().st_size)
        print(f"{len(found):,} sentences, {size} in {target}", file=sys.stderr)


@store.command()
def merge(
    sources: Annotated[list[Path], typer.Argument(help="Stores of one model and one choice.")],
    target: Annotated[Path, typer.Argument(help="A new store, or one to add to.")],
    quiet: Quiet = False,
) -> None:
    """Put stores together, each sentence once; damaged sentences are left out and named."""
    from elmore.store.merge import merge as join
    from elmore.store.store import Store

    total = sum(len(Store.open(source)) for source in sources)
    with _bar(total, quiet) as advance:
        report = join(sources, target, lambda now: advance(now.added + now.repeated))
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
    text: Text,
    model: Model,
    options: Options = None,
    tokenize: Tokenize = False,
    errors: BadBytes = Errors.STRICT,
) -> None:
    """How large each choice would be, before anything is computed."""
    from elmore.checkpoint.sources import load
    from elmore.store.sizes import count, hdf5_bytes
    from elmore.store.sizes import plan as sizes

    config = load(model, options=options).model.config
    counts = count(SentenceFiles([text], tokenize, errors.value))
    whole = hdf5_bytes(counts, config.n_layers, config.dim)
    print(f"{counts.sentences:,} sentences, {counts.words:,} words in the text")
    print(f"{counts.distinct_sentences:,} sentences, {counts.distinct_words:,} words distinct")
    print(f"\n{'keep':<28}{'precision':<11}{'bytes a word':>13}{'size':>12}{'smaller':>10}")
    word = config.n_layers * config.dim * 4
    print(f"{'AllenNLP HDF5, all repeated':<28}{'float32':<11}{word:>13,}{_size(whole):>12}")
    for size in sizes(counts, config.n_layers, config.dim):
        times = f"{whole / max(1, size.bytes):,.1f}×"
        print(
            f"{size.keep:<28}{size.precision:<11}{size.word_bytes:>13,}"
            f"{_size(size.bytes):>12}{times:>10}"
        )


def _check_choice(
    folder: Path, keep: str | None, gamma: float | None, precision: Precision | None
) -> None:
    """What can be refused before the model is loaded."""
    if gamma is not None and not (keep or "").startswith("mix:"):
        raise ConfigError("--gamma is the scale of a mix; give it with --keep mix:...")
    if folder.exists():
        from elmore.store.layout import read_manifest

        there = read_manifest(folder).precision
        if precision is not None and precision.value != there:
            raise ConfigError(
                f"{folder}: its precision is {there}, not {precision.value}; leave --precision out."
            )


def _created(folder: Path, embedder: "Embedder", choice: "Choice", precision: Precision) -> "Store":
    from elmore.store.store import Store

    return Store.create(folder, embedder, keep=choice, precision=precision.value)


def _opened(folder: Path, embedder: "Embedder", keep: str | None, gamma: float | None) -> "Store":
    """To go on with: what was asked for must be what it keeps."""
    from elmore.store.keep import KeepMix, KeepProjection, described, keep_of
    from elmore.store.store import Store

    found = Store.open(folder, embedder)
    if keep is None:
        return found
    match found.keep:
        case KeepProjection(dim=dim):
            same = keep == f"{_PROJECTION}{dim}"
        case KeepMix(gamma=there) if keep.startswith("mix:"):
            scale = {"gamma": there if gamma is None else gamma}
            same = keep_of(keep, embedder.n_layers).model_copy(update=scale) == found.keep
        case _:
            same = (
                not keep.startswith(_PROJECTION) and keep_of(keep, embedder.n_layers) == found.keep
            )
    if not same:
        raise ConfigError(
            f"{folder}: it keeps {described(found.keep)}, not {keep}; leave --keep out, or choose "
            "another folder."
        )
    return found


def _choice(
    keep: str, gamma: float | None, embedder: "Embedder", text: str, sample: Iterable[list[str]]
) -> "Choice":
    """The option as the library wants it; a projection is learnt from the text's beginning."""
    from elmore.store.keep import KeepMix, keep_of
    from elmore.store.projection import Projection

    if not keep.startswith(_PROJECTION):
        kept = keep_of(keep, embedder.n_layers)
        scale = 1.0 if gamma is None else gamma
        return kept.model_copy(update={"gamma": scale}) if isinstance(kept, KeepMix) else keep
    number = keep.removeprefix(_PROJECTION)
    if not number.isdecimal():
        raise ConfigError(f"keep is {keep!r}; expected a number, such as {_PROJECTION}256.")
    if text == STDIN:
        raise ConfigError("A projection is learnt from the text first; give a file, not -.")
    return Projection.learn(embedder.stream(_first_words(sample, _SAMPLE_WORDS)), int(number))


def _first_words(sentences: Iterable[list[str]], n_words: int) -> Iterator[list[str]]:
    for sentence in sentences:
        yield sentence
        n_words -= len(sentence)
        if n_words <= 0:
            return


@contextmanager
def _bar(total: int | None, quiet: bool) -> Iterator[Callable[[int], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeElapsedColumn())
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


_Counted = Callable[[Iterable[list[str]]], Iterator[list[str]]]


@contextmanager
def _filling_bar(
    text: str, quiet: bool
) -> Iterator[tuple[_Counted, "Callable[[FillProgress], None]"]]:
    """A bar that moves with the bytes read, where a file's size can be known."""
    path = Path(text)
    plain = path.is_file() and path.suffix not in COMPRESSED
    done = 0

    def counted(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
        nonlocal done
        for sentence in sentences:
            done += sum(len(word) + 1 for word in sentence)
            yield sentence

    with _bar(path.stat().st_size if plain else None, quiet) as advance:
        yield counted, lambda _: advance(done)


def _disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes} bytes"
