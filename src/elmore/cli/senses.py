"""`elmore senses`: what a word means in an index's corpus, sense by sense."""

from pathlib import Path
from typing import Annotated

import typer


def senses(
    folder: Annotated[Path, typer.Argument(help="What `elmore index` has made.")],
    word: Annotated[str, typer.Argument(help="An indexed word.")],
    layer: Annotated[
        str, typer.Option(help="mix, a number, or weights: 0.2,0.5,0.3; if the index has them.")
    ] = "mix",
    typical: Annotated[int, typer.Option(help="Uses shown of each sense.", min=1)] = 3,
) -> None:
    """Show a word's senses, each by typical uses and by the words around them."""
    from rich.console import Console
    from rich.text import Text

    from elmore.cli.concordance import layer_of, line, shown
    from elmore.search.index import Index

    index = Index.open(folder)
    found = index.senses(word, layer=layer_of(layer), typical=typical)
    console = Console(highlight=False)
    for number, sense in enumerate(found.senses, start=1):
        about = f", {sense.size / found.n_uses:.0%} of {found.n_uses:,} uses"
        told = f": {shown([', '.join(sense.characteristic)])}" if sense.characteristic else ""
        console.print(Text.assemble((f"{found.word} {number}", "bold"), about, told))
        for use in sense.typical:
            console.print(line(use, console.width - 1), no_wrap=True, crop=True)
    static = ", ".join(near.word for near in index.static_neighbors(found.word))
    console.print(Text.assemble(("without context", "bold"), f": {shown([static])}"))
