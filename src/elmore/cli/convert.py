"""`elmore convert`: any model that can be read, written as elmore's own folder or as HDF5."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[str, typer.Argument(help="A shipped name, a folder, or a weight file.")],
    target: Annotated[
        Path, typer.Argument(help="A new folder, or a name ending in .hdf5 for AllenNLP's files.")
    ],
    options: Annotated[
        Path | None, typer.Option(help="The options file, if it is not beside the weights.")
    ] = None,
) -> None:
    """Write a model in another format, softmax and vocabulary included when they are there."""
    from elmore.checkpoint.sources import load, save

    checkpoint = load(source, options=options, softmax=True)
    written = save(checkpoint, target)
    for path in written:
        print(path)
    if checkpoint.softmax is not None and not any("softmax" in path.name for path in written):
        print(f"{target}: without the softmax, which is adaptive: HDF5 has none.", file=sys.stderr)
