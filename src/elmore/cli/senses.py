"""`elmore senses`: what a word means in an index's corpus, sense by sense."""

from typing import Annotated

import typer

from elmore.cli.options import IndexFolder, Layer
from elmore.cli.top_layer import numbered

_FEW = 20  # uses of a word that hardly show more than one sense


def senses(
    folder: IndexFolder,
    word: Annotated[str, typer.Argument(help="An indexed word.")],
    layer: Layer = None,
    typical: Annotated[int, typer.Option(help="Uses shown per sense.", min=1)] = 3,
) -> None:
    """Show the senses of a word, each with typical uses and the words around them."""
    from rich.console import Console
    from rich.text import Text

    from elmore.cli.concordance import layer_of, line, shown
    from elmore.search.index import Index

    layer = numbered(layer, folder)
    index = Index.open(folder)
    found = index.senses(word, layer=layer_of(layer), typical=typical)
    console = Console(highlight=False)
    for number, sense in enumerate(found.senses, start=1):
        about = f", {sense.size / found.n_uses:.0%} of {found.n_uses:,} uses"
        told = f": {shown([', '.join(sense.characteristic)])}" if sense.characteristic else ""
        console.print(Text.assemble((f"{found.word} {number}", "bold"), about, told))
        for use in sense.typical:
            console.print(line(use, console.width - 1), no_wrap=True, crop=True)
    if len(found.senses) == 1 and found.n_uses < _FEW:
        console.print(f"{found.n_uses} uses are few: with more text, more senses may be told apart")
    static = ", ".join(near.word for near in index.static_neighbors(found.word))
    console.print(Text.assemble(("without context", "bold"), f": {shown([static])}"))
