"""`elmore convert`: any model that can be read, written as elmore's own folder or as HDF5, or
packed into one file. BERT is written as a Hugging Face folder.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import Lowercase, OptionsFile, Pieces, Source


def convert(
    source: Source,
    target: Annotated[
        Path,
        typer.Argument(
            help="A new folder, x.zip, x.tar.gz, x.hdf5 (AllenNLP's); static vectors: x.txt, x.npz."
        ),
    ],
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
) -> None:
    """Write a model in another format, with its heads and vocabulary if it has them."""
    check_files(model=source)
    from elmore.checkpoint.bert_config import word_options
    from elmore.checkpoint.bilm import softmax_of
    from elmore.checkpoint.companions import HDF5_ENDINGS
    from elmore.checkpoint.sources import load, save

    words = word_options(lowercase, pieces)
    checkpoint = load(source, options=options, heads=True, words=words)
    written = save(checkpoint, target)
    for path in written:
        print(path)
    if target.suffix not in HDF5_ENDINGS:
        return
    lost = []
    if softmax_of(checkpoint) is not None and not any("softmax" in path.name for path in written):
        lost.append("the softmax; this format has no adaptive softmax")
    if checkpoint.lens is not None:
        lost.append("the lens for meaning; this format has no place for it")
    if checkpoint.mixes:
        lost.append("the learned mixes; this format has no place for them")
    for what in lost:
        print(f"{target}: written without {what}.", file=sys.stderr)
