"""`elmore export --static`: a model's context-free word vectors for gensim and others."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import (
    AsIs,
    BadBytes,
    Device,
    Errors,
    LineKind,
    LinesAre,
    Lowercase,
    OptionsFile,
    Pieces,
    Quiet,
    SentenceFile,
    Source,
    Tokenize,
)


def export(
    source: Source,
    text: SentenceFile,
    target: Annotated[Path, typer.Argument(help="A new file in word2vec's text format.")],
    static: Annotated[
        bool, typer.Option("--static", help="The vectors of words without context.")
    ] = False,
    most: Annotated[
        int | None, typer.Option(min=1, help="Only the most frequent words of the text.")
    ] = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Write a vector for every distinct word of a text, most frequent first."""
    check_files(model=source, text=text)
    from elmore.cli.progress import counting_bar
    from elmore.dump.static_vectors import distinct_words, write_static
    from elmore.embedder import Embedder
    from elmore.errors import ConfigError
    from elmore.files.sentence_files import SentenceFiles
    from elmore.files.text_file import find_files

    if not static:
        raise ConfigError("Say --static: vectors in context are written by `elmore embed`.")
    paths = find_files([text], read_once=True)
    sentences = SentenceFiles(paths, tokenize, errors.value, lines=lines.value, as_is=as_is)
    words = distinct_words(sentences, most)
    embedder = Embedder.load(
        source, options=options, device=device, pieces=pieces, lowercase=lowercase
    )
    with counting_bar(quiet) as show:
        write_static(embedder, words, target, lambda done: show(done, len(words)))
    if not quiet:
        print(f"{len(words):,} words × {embedder.dim} in {target}", file=sys.stderr)
