"""`elmore task evaluate wsd|wic|probes`: what vectors know of meaning, without a model of the task.
One table, a row for each layer and rule; `--json` has it with every digit.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmore.cli.options import Cache, Quiet
from elmore.cli.progress import counting_bar

if TYPE_CHECKING:
    from elmore.embedder import LayerSource
    from elmore.text.reader import Reader

Encoder = Annotated[str, typer.Option(help="A model, or glove:FILE.")]
Semcor = Annotated[list[str], typer.Option(help="SemCor as JSON lines or .data.xml; globs too.")]
Sets = Annotated[list[str], typer.Option(help="Test sets, .data.xml with their keys; globs too.")]
DevSet = Annotated[str, typer.Option(help="The set that chooses layer and rule.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the table here as well.")]

_DEV = "semeval2007"


def wsd(
    encoder: Encoder,
    semcor: Semcor,
    sets: Sets,
    dev: DevSet = _DEV,
    cache: Cache = None,
    output: Json = None,
    quiet: Quiet = False,
) -> None:
    """Word senses by the nearest neighbour in SemCor; F1."""
    from elmore.files.find_files import find_files
    from elmore.tasks.wsd import wsd as measure

    vectors = _Heard(encoder, *_layers(encoder, cache))
    with counting_bar(quiet) as watch:
        found = measure(vectors, find_files(semcor), find_files(sets), dev=dev, watch=watch)
    if found.unseen and not quiet:
        print(
            f"{found.unseen:,} instances have a lemma that SemCor has not: left open, which costs "
            "recall.",
            file=sys.stderr,
        )
    vectors.tell(quiet)
    _tell(found.table(), output)


def wic(
    encoder: Encoder,
    train: Annotated[
        list[str], typer.Option(help="Pairs that choose the threshold, .data.txt; globs too.")
    ],
    test: Annotated[Path, typer.Option(help="Pairs to be judged, .data.txt.")],
    cache: Cache = None,
    output: Json = None,
    quiet: Quiet = False,
) -> None:
    """Whether two uses of a word mean the same, by their cosine; accuracy."""
    from elmore.files.find_files import find_files
    from elmore.tasks.wic import wic as measure

    vectors = _Heard(encoder, *_layers(encoder, cache))
    with counting_bar(quiet) as watch:
        found = measure(vectors, find_files(train), test, watch=watch)
    vectors.tell(quiet)
    _tell(found.table(), output)


def probes(
    encoder: Encoder,
    train: Annotated[Path, typer.Option(help="CoNLL-U to train the part-of-speech probes on.")],
    test: Annotated[Path, typer.Option(help="CoNLL-U to test them on.")],
    semcor: Semcor,
    sets: Sets,
    dev: DevSet = _DEV,
    cache: Cache = None,
    output: Json = None,
    quiet: Quiet = False,
) -> None:
    """What each layer knows: parts of speech by a linear probe, and word senses."""
    from elmore.files.find_files import find_files
    from elmore.tasks.probes import probe

    vectors = _Heard(encoder, *_layers(encoder, cache))
    with counting_bar(quiet) as watch:
        found = probe(
            vectors, (train, test), find_files(semcor), find_files(sets), dev=dev, watch=watch
        )
    vectors.tell(quiet)
    _tell(found.table(), output)


def _layers(source: str, cache: Path | None) -> "tuple[LayerSource, Reader | None]":
    """All layers of a model, kept if asked, and its reader; or static vectors as layers."""
    from elmore.embedder import Embedder
    from elmore.errors import ConfigError
    from elmore.models.static import StaticVectors
    from elmore.store.cached import CachedEmbedder
    from elmore.tasks.encoders.encoder import NONE, STATIC, STORE
    from elmore.tasks.encoders.kept_layers import LayersInStore
    from elmore.tasks.encoders.static_context import StaticContext

    if source == NONE or "+" in source or source.startswith(STORE):
        raise ConfigError(f"encoder {source!r}: layers are asked of one model, or of glove:FILE.")
    if source.startswith(STATIC):
        return StaticContext(StaticVectors.load(Path(source.removeprefix(STATIC)))), None
    embedder = Embedder.load(source)
    if cache is None:
        return embedder, embedder.reader
    cached = CachedEmbedder(embedder, LayersInStore.cached(embedder, cache).store)
    return cached, embedder.reader


class _Heard:
    """Layers as they come, and of the words that pass by those that the model cannot read whole."""

    def __init__(self, name: str, layers: "LayerSource", reader: "Reader | None"):
        self.name, self.layers, self.reader = name, layers, reader
        self.n_layers, self.dim = layers.n_layers, layers.dim
        self.context_free = layers.context_free
        self.words: set[str] = set()

    @property
    def fingerprint(self) -> str:
        return self.layers.fingerprint

    def stream(
        self, items: Iterable[Any], *, key: Callable[[Any], Sequence[str]] | None = None
    ) -> Iterator[Any]:
        heard = self._hear(items, key or (lambda item: item))
        return self.layers.stream(heard) if key is None else self.layers.stream(heard, key=key)

    def _hear(self, items: Iterable[Any], key: Callable[[Any], Sequence[str]]) -> Iterator[Any]:
        for item in items:
            self.words.update(key(item))
            yield item

    def tell(self, quiet: bool) -> None:
        from elmore.tasks.encoders.source import cut_words

        if self.reader is not None and not quiet:
            for note in cut_words(self.name, self.reader, self.words):
                print(note, file=sys.stderr)


def _tell(table: list[dict[str, Any]], output: Path | None) -> None:
    """To stdout, and as JSON with every digit."""
    from elmore.files.atomic import write_text
    from elmore.tasks.compare.report import markdown

    rows = [[_cell(value) for value in row.values()] for row in table]
    print(markdown([list(table[0]), *rows]), end="")
    if output is not None:
        write_text(output, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def _cell(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else ""
        case float():
            return f"{value:.2f}"
    return str(value)
