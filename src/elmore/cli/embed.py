"""`elmore embed`: the vectors of a text file, one sentence a line, in AllenNLP's HDF5 layout,
NumPy's .npz or JSON lines.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.errors import InputError
from elmore.files.text_file import COMPRESSED, STDIN, read_lines

if TYPE_CHECKING:
    from elmore.dump.dump import DumpReport, Progress


class Format(StrEnum):
    """What can be written."""

    HDF5 = "hdf5"
    NPZ = "npz"
    JSONL = "jsonl"


class Precision(StrEnum):
    """How an LSTM's weights are held."""

    FLOAT32 = "float32"
    INT8 = "int8"


class Errors(StrEnum):
    """What to do with bytes that are not UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


def embed(
    input: Annotated[str, typer.Argument(help="One sentence a line (.gz, .xz, .zst too), or -.")],
    output: Annotated[Path, typer.Argument(help="x.hdf5, x.npz or x.jsonl; - is JSON to stdout.")],
    model: Annotated[str, typer.Option(help="A shipped name, a folder, or a weight file.")],
    options: Annotated[
        Path | None, typer.Option(help="The options file, if not beside the weights.")
    ] = None,
    layers: Annotated[str, typer.Option(help="all, top, average, or numbers: 0,2.")] = "all",
    format: Annotated[Format | None, typer.Option(help="If OUTPUT's ending says none.")] = None,
    batch_words: Annotated[
        int | None, typer.Option(help="Words computed together; fewer take less memory.")
    ] = None,
    stateful: Annotated[
        bool, typer.Option("--stateful", help="Carry LSTM state over, as the originals did.")
    ] = False,
    batch_sentences: Annotated[
        int, typer.Option(help="Rows that carry state, with --stateful.")
    ] = 64,
    forget_sentences: Annotated[
        bool, typer.Option("--forget-sentences", help="Leave sentence_to_index out.")
    ] = False,
    use_sentence_keys: Annotated[
        bool, typer.Option("--use-sentence-keys", help="Key by sentence, not by line number.")
    ] = False,
    tokenize: Annotated[
        bool, typer.Option("--tokenize", help="Lines are raw text, not words between spaces.")
    ] = False,
    errors: Annotated[Errors, typer.Option(help="For bytes that are not UTF-8.")] = Errors.STRICT,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        Precision, typer.Option(help="int8 is faster and off by about a hundredth.")
    ] = Precision.FLOAT32,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Write the vectors of every line of a text."""
    from elmore.dump.config import DumpConfig, check_target, format_of
    from elmore.dump.dump import dump
    from elmore.embedder import BATCH_WORDS, Embedder

    config = DumpConfig(
        format=format_of(output, None if format is None else format.value),
        layers=layers,
        batch_words=BATCH_WORDS if batch_words is None else batch_words,
        stateful=stateful,
        batch_sentences=batch_sentences,
        forget_sentences=forget_sentences,
        use_sentence_keys=use_sentence_keys,
        tokenize=tokenize,
        resume=resume,
    )
    # Both before the model, which may take a while to load.
    check_target(output, config)
    _check_input(input)
    embedder = Embedder.load(model, options=options, device=device, precision=precision.value)
    lines = read_lines(input, errors=errors.value)
    with _progress_bar(input, quiet or not sys.stderr.isatty()) as progress:
        report = dump(embedder, lines, output, config, progress=progress)
    if not quiet:
        for line in _summary(report, output, by_sentence=use_sentence_keys):
            print(line, file=sys.stderr)


def _check_input(name: str) -> None:
    if name != STDIN and not Path(name).exists():
        raise InputError(f"{name}: no such file.")


@contextmanager
def _progress_bar(name: str, silent: bool) -> Iterator[Callable[["Progress"], None]]:
    if silent:
        yield lambda _: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[lines]:,} sentences, {task.fields[speed]:,.0f} words/s"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=_size(name), lines=0, speed=0.0)

        def show(now: "Progress") -> None:
            speed = now.words / (bar.tasks[0].elapsed or 1.0)
            bar.update(task, completed=now.bytes, lines=now.lines, speed=speed)

        yield show


def _size(name: str) -> int | None:
    """Bytes to read, where that can be known."""
    path = Path(name)
    return path.stat().st_size if path.is_file() and path.suffix not in COMPRESSED else None


def _summary(report: "DumpReport", output: Path, by_sentence: bool) -> Iterator[str]:
    """One closing line, and one more when the map of sentences was left out."""
    if report.map_left_out:
        yield "sentence_to_index is left out: its text would pass 64 MB."
    if report.lines_before and report.lines_before == report.lines:
        yield f"{output} is complete: {report.lines:,} lines, {report.words:,} words."
        return
    parts = [_count(report.lines - report.blank, "sentence"), _count(report.words, "word")]
    if report.blank:
        without_key = " (no key, so left out)" if by_sentence else ""
        parts.append(f"{_count(report.blank, 'blank line')}{without_key}")
    if report.repeated:
        parts.append(f"{_count(report.repeated, 'repeated sentence')} stored once")
    if report.lines_before:
        parts.append(f"{report.lines_before:,} lines were there already")
    parts.append(f"{report.seconds:.1f} s")
    parts.append(f"{report.words_per_second:,.0f} words/s")
    if output.is_file():
        parts.append(f"{_megabytes(output.stat().st_size)} in {output}")
    yield ", ".join(parts)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' if n != 1 else ''}"


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes:,} bytes"
