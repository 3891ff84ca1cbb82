"""`elmore neighbors`: the uses of an index that are most like a word in a sentence."""

from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.options import IndexFolder, Layer
from elmore.cli.top_layer import numbered
from elmore.errors import InputError

if TYPE_CHECKING:
    from elmore.search.answers import Neighbor, StaticNeighbor

_BESIDE = 22  # columns for the static neighbors and the scores


def neighbors(
    folder: IndexFolder,
    sentence: Annotated[str, typer.Argument(help="The sentence; it is split into words.")],
    word: Annotated[str, typer.Option(help="The word in it to look at.")],
    k: Annotated[int, typer.Option("-k", help="The number of neighbors.", min=1)] = 10,
    layer: Layer = None,
    all_words: Annotated[
        bool, typer.Option("--all-words", help="Uses of all words, not only of this one.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="The model of the index, if it has moved.")
    ] = None,
) -> None:
    """Show the nearest uses of a word in a sentence, and its nearest words without context."""
    from elmore.cli.concordance import layer_of
    from elmore.embedder import Embedder
    from elmore.search.index import Index
    from elmore.search.manifest import ModelSource
    from elmore.text.tokenize import words

    layer = numbered(layer, folder)
    chosen, found = layer_of(layer), words(sentence)
    if word not in found:
        raise InputError(f"{word!r} is not a word of the sentence; its words are {found}.")
    index = Index.open(folder)
    source = index.manifest.source or ModelSource(name=model or "")
    if model is not None:
        source = source.model_copy(update={"name": model})
    if not source.name:
        raise InputError(f"{folder}: does not name its model; add --model.")
    embedder = Embedder.load(
        source.name,
        options=source.options,
        precision=source.precision,
        pieces=source.pieces,
        lowercase=source.lowercase,
        download=model is not None,  # not because an index says so
    )
    index = Index.open(folder, embedder)
    near = index.neighbors(found, found.index(word), k, layer=chosen, same_word=not all_words)
    known = word if word in index else word.lower()
    _show(near, index.static_neighbors(known, k) if known in index else [])


def _show(near: "list[Neighbor]", static: "list[StaticNeighbor]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from elmore.cli.concordance import line, shown

    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("cosine", justify="right")
    table.add_column("nearest uses", no_wrap=True)
    table.add_column("without context", no_wrap=True)
    for i in range(max(len(near), len(static))):
        hit = near[i] if i < len(near) else None
        table.add_row(
            f"{hit.score:.3f}" if hit else "",
            line(hit.use, console.width - 2 - len("cosine") - _BESIDE) if hit else "",
            Text(shown([static[i].word])) if i < len(static) else "",
        )
    console.print(table)
