"""`elmore embed`: the vectors of a text file with one sentence per line, in AllenNLP's HDF5 layout,
NumPy's .npz or JSON lines.
"""

import sys
from collections.abc import Iterator
from enum import StrEnum
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
    LinesAsked,
    Lowercase,
    ModelOfText,
    On,
    OptionsFile,
    Pieces,
    Precision,
    Quiet,
    Resume,
    RunPrecision,
    SentenceFile,
    Tokenize,
    Workers,
)
from elmore.cli.progress import Bar, text_bytes
from elmore.cluster.address import place_of
from elmore.errors import ConfigError
from elmore.files.sentence_files import LONGEST, SentenceFiles
from elmore.files.text_file import find_files

if TYPE_CHECKING:
    from elmore.dump.dump import DumpProgress, DumpReport


class Format(StrEnum):
    """What can be written."""

    HDF5 = "hdf5"
    NPZ = "npz"
    JSONL = "jsonl"


def embed(
    input: SentenceFile,
    output: Annotated[
        Path, typer.Argument(help="x.hdf5, x.npz or x.jsonl; - writes JSON to stdout.")
    ],
    model: ModelOfText = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    layers: Annotated[
        str, typer.Option(help="all, top, average, meaning, or numbers such as 0,2.")
    ] = "all",
    format: Annotated[
        Format | None, typer.Option(help="Needed if OUTPUT's ending does not say it.")
    ] = None,
    batch_words: Annotated[
        int | None, typer.Option(help="Words per batch; fewer words need less memory.", min=1)
    ] = None,
    stateful: Annotated[
        bool, typer.Option("--stateful", help="Carry LSTM state over sentences, as bilm-tf did.")
    ] = False,
    batch_sentences: Annotated[
        int, typer.Option(help="Sentences per batch, with --stateful.", min=1)
    ] = 64,
    forget_sentences: Annotated[
        bool, typer.Option("--forget-sentences", help="Do not write sentence_to_index.")
    ] = False,
    use_sentence_keys: Annotated[
        bool, typer.Option("--use-sentence-keys", help="Use sentences as keys, not line numbers.")
    ] = False,
    tokenize: Tokenize = False,
    lines: LinesAsked = None,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    resume: Resume = False,
    device: Device = "auto",
    precision: RunPrecision = Precision.FLOAT32,
    on: On = None,
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Write the vectors of every line of a text."""
    place = place_of(on, workers)
    check_files(model=model, text=input)
    from elmore.cluster.pooled_embedder import embedder_on
    from elmore.dump.config import DumpConfig, check_target, format_of
    from elmore.dump.dump import dump
    from elmore.dump.resumable import started_with
    from elmore.embedder import Embedder
    from elmore.text.batching import BATCH_WORDS

    before = started_with(output) if resume else None
    asked = ("auto" if tokenize else "sentence") if before is None else before.lines
    config = DumpConfig(
        format=format_of(output, None if format is None else format.value),
        layers=layers,
        batch_words=BATCH_WORDS if batch_words is None else batch_words,
        stateful=stateful,
        batch_sentences=batch_sentences,
        forget_sentences=forget_sentences,
        use_sentence_keys=use_sentence_keys,
        tokenize=tokenize,
        lines=asked if lines is None or not tokenize else lines.value,
        longest=LONGEST if before is None else before.longest,
        resume=resume,
    )
    if place is not None and stateful:
        raise ConfigError("--stateful reads sentences one after another: remove it, or --on.")
    # Checked before the model is loaded, which may take a while.
    check_target(output, config)
    paths = find_files([input], read_once=True)
    embedder = Embedder.load(
        model_for(model, paths, quiet=quiet),
        options=options,
        device=device,
        precision=precision.value,
        pieces=pieces,
        lowercase=lowercase,
    )
    text = SentenceFiles(
        paths,
        tokenize,
        errors.value,
        lines=config.lines,
        as_is=as_is or before is not None,
        keep_blank=config.lines == "sentence",  # the number of a line is its key
        longest=config.longest,
    )
    with (
        Bar(quiet) as bar,
        embedder_on(place, embedder, config.batch_words, told=bar.line) as source,
    ):
        n_bytes = text_bytes(paths)

        def show(now: "DumpProgress") -> None:
            speed = now.words / (bar.seconds or 1.0)
            bar.update(now.bytes, n_bytes, figures=f"{now.lines:,} sentences, {speed:,.0f} words/s")

        report = dump(source, text.texts(), output, config, progress=show)
    if not quiet:
        for line in _summary(report, output, by_sentence=use_sentence_keys):
            print(line, file=sys.stderr)


def _summary(report: "DumpReport", output: Path, by_sentence: bool) -> Iterator[str]:
    """One closing line, and one more when the map of sentences was left out."""
    if report.map_left_out:
        yield "sentence_to_index is left out: it would be larger than 64 MB."
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
