"""`elmore task evaluate wsd|wic|probes`: how well vectors represent meaning, without training a
model for the task. One table with a row per layer and rule; `--json` has every digit.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmore.cli.options import Cache, Quiet
from elmore.cli.progress import counting_bar

if TYPE_CHECKING:
    from elmore.embedder import LayerSource
    from elmore.embedding import Vectors
    from elmore.models.lens import Lens
    from elmore.text.reader import Reader

Encoder = Annotated[str, typer.Option(help="A model, or glove:FILE.")]
Semcor = Annotated[list[str], typer.Option(help="SemCor as JSON lines or .data.xml; globs too.")]
Sets = Annotated[list[str], typer.Option(help="Test sets, .data.xml with their keys; globs too.")]
DevSet = Annotated[str, typer.Option(help="The set that chooses layer and rule.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the table to this file.")]

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
    """Word senses by the nearest neighbor in SemCor; F1."""
    from elmore.files.text_file import find_files
    from elmore.tasks.wsd import wsd as measure

    with _measuring(encoder, cache, quiet) as (vectors, watch):
        found = measure(vectors, find_files(semcor), find_files(sets), dev=dev, watch=watch)
    if found.unseen and not quiet:
        print(
            f"{found.unseen:,} instances have a lemma that is not in SemCor: they get no answer, "
            "which lowers recall.",
            file=sys.stderr,
        )
    _print_table(found.table(), output)


def wic(
    encoder: Encoder,
    train: Annotated[
        list[str],
        typer.Option(help="Pairs for the threshold, .data.txt or .jsonl; globs too."),
    ],
    test: Annotated[Path, typer.Option(help="Pairs to test on, .data.txt or .jsonl.")],
    cache: Cache = None,
    output: Json = None,
    quiet: Quiet = False,
) -> None:
    """Whether two uses of a word mean the same, by their cosine; accuracy."""
    from elmore.files.text_file import find_files
    from elmore.tasks.wic import wic as measure

    with _measuring(encoder, cache, quiet) as (vectors, watch):
        found = measure(vectors, find_files(train), test, watch=watch)
    _print_table(found.table(), output)


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
    from elmore.files.text_file import find_files
    from elmore.tasks.probes import probe

    with _measuring(encoder, cache, quiet) as (vectors, watch):
        found = probe(
            vectors, (train, test), find_files(semcor), find_files(sets), dev=dev, watch=watch
        )
    _print_table(found.table(), output)


@contextmanager
def _measuring(
    encoder: str, cache: Path | None, quiet: bool
) -> "Iterator[tuple[_Recorded, Callable[[int, int], None]]]":
    """The vectors to measure and a progress bar; afterwards a note on words that were cut."""
    from elmore.tasks.encoders.source import cut_words

    layers, reader = _layers(encoder, cache)
    vectors = _Recorded(layers)
    with counting_bar(quiet) as watch:
        yield vectors, watch
    if reader is not None and not quiet:
        for note in cut_words(encoder, reader, vectors.words):
            print(note, file=sys.stderr)


def _layers(source: str, cache: Path | None) -> "tuple[LayerSource, Reader | None]":
    """All layers of a model, cached if asked, and its reader; or static vectors as layers."""
    from elmore.checkpoint.sources import load_static
    from elmore.embedder import Embedder
    from elmore.errors import ConfigError
    from elmore.store.cached import CachedEmbedder
    from elmore.tasks.encoders.layer_sources import LayersInStore
    from elmore.tasks.encoders.names import NONE, STATIC, STORE, parts_of
    from elmore.tasks.encoders.source import StaticContext

    if source == NONE or "+" in source or source.startswith(STORE):
        raise ConfigError(f"encoder {source!r}: expected one model, or glove:FILE.")
    if source.startswith(STATIC):
        return StaticContext(load_static(source.removeprefix(STATIC))), None
    embedder = Embedder.load(parts_of(source)[0].model)
    if cache is None:
        return embedder, embedder.reader
    cached = CachedEmbedder(embedder, LayersInStore.cached(embedder, cache).store)
    return cached, embedder.reader


class _Recorded:
    """A layer source that records the words it is asked for."""

    def __init__(self, layers: "LayerSource"):
        self.layers, self.n_layers, self.dim = layers, layers.n_layers, layers.dim
        self.context_free = layers.context_free
        self.words: set[str] = set()

    @property
    def fingerprint(self) -> str:
        return self.layers.fingerprint

    @property
    def lens(self) -> "Lens | None":
        return getattr(self.layers, "lens", None)

    def static(self, texts: Sequence[Sequence[str]]) -> "Vectors":
        return self.layers.static(texts)

    def stream(
        self, items: Iterable[Any], *, key: Callable[[Any], Sequence[str]] | None = None
    ) -> Iterator[Any]:
        recorded = self._record(items, key or (lambda item: item))
        return self.layers.stream(recorded, key=key) if key else self.layers.stream(recorded)

    def _record(self, items: Iterable[Any], key: Callable[[Any], Sequence[str]]) -> Iterator[Any]:
        for item in items:
            self.words.update(key(item))
            yield item


def _print_table(table: list[dict[str, Any]], output: Path | None) -> None:
    """To stdout, and as JSON with every digit to a file."""
    from elmore.files.atomic import write_text
    from elmore.tasks.markdown import markdown

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
