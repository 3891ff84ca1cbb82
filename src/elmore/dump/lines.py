"""Lines in, vectors out, a window at a time. A window knows how much of the input it completes and
the checksum up to there, so that a later run can tell whether it goes on with the same text.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elmore.dump.config import DumpConfig
from elmore.embedder import Embedder
from elmore.embedding import Embedding, Sentence, Vectors, layer_choice
from elmore.errors import InputError
from elmore.files.sentence_files import line_words
from elmore.text.batching import windows as grouped

MAX_MAP_BYTES = 64_000_000  # of sentences; a larger map would cost more memory than the model


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the input."""

    index: int
    sentence: str


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One line of the input and what became of it."""

    index: int
    sentence: str
    words: list[str]
    vectors: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Consecutive items; `lines`, `bytes` and `sha256` are of the whole input up to their end."""

    items: list[Item]
    lines: int
    bytes: int
    sha256: str


class LineReader:
    """The input as it is read: counted, hashed, never more than a window ahead of its vectors."""

    def __init__(self, lines: Iterable[str]):
        self._lines = iter(lines)
        self._digest = hashlib.sha256()
        self.lines = 0
        self.bytes = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def read(self) -> str | None:
        """The next line, None at the end."""
        try:
            line = next(self._lines, None)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(
                f"The input cannot be read past line {self.lines} ({reason})."
            ) from None
        if line is not None:
            self.lines += 1
            raw = self._encoded(line)
            self._digest.update(raw)
            self.bytes += len(raw)
        return line

    def _encoded(self, line: str) -> bytes:
        try:
            return line.encode() + b"\n"
        except UnicodeEncodeError as error:
            raise InputError(
                f"Line {self.lines} of the input holds half a surrogate pair at place "
                f"{error.start}, which no file can hold; remove it."
            ) from None

    def rest(self) -> Iterator[Line]:
        while (line := self.read()) is not None:
            yield Line(self.lines - 1, line.strip())


def embedded(embedder: Embedder, reader: LineReader, config: DumpConfig) -> Iterator[Window]:
    """The rest of the input. What a window holds does not depend on where the reading began, as
    long as it began at the end of another: resumed runs compute the same batches."""
    choice = layer_choice(config.layers, embedder.n_layers)
    items: list[Item] = []
    for line, embedding in _embeddings(embedder, reader.rest(), config):
        vectors = choice.select(embedding.layers)  # (K, n, D)
        if config.is_one_layer:
            vectors = vectors[0]
        items.append(Item(line.index, line.sentence, embedding.words, vectors))
        if line.index + 1 == reader.lines:  # nothing that has been read waits for its vectors
            yield Window(items, reader.lines, reader.bytes, reader.sha256)
            items = []


def _embeddings(
    embedder: Embedder, lines: Iterator[Line], config: DumpConfig
) -> Iterator[tuple[Line, Embedding]]:
    def words(line: Line) -> Sentence:
        return line_words(line.sentence, tokenize=config.tokenize)

    if not config.stateful:
        yield from embedder.stream(lines, key=words, batch_words=config.batch_words)
        return
    rows = config.batch_sentences
    with embedder.stateful() as run:
        for batch in grouped(((line, 1) for line in lines), rows, rows):
            yield from zip(batch, run.embed([words(line) for line in batch]), strict=True)


class SentenceMap:
    """AllenNLP's `sentence_to_index`: where each sentence is, the last place if it is repeated."""

    def __init__(self, wanted: bool):
        self._wanted = wanted
        self._indexes: dict[str, str] = {}
        self._bytes = 0
        self.left_out = False

    def add(self, sentence: str, index: int) -> None:
        if not self._wanted or self.left_out or not sentence:
            return
        if sentence not in self._indexes:
            self._bytes += len(sentence.encode()) + len(str(index))
        self._indexes[sentence] = str(index)
        if self._bytes > MAX_MAP_BYTES:
            self.left_out = True
            self._indexes.clear()

    def text(self) -> str | None:
        """As JSON; None when it is not wanted or grew too large."""
        if not self._wanted or self.left_out:
            return None
        return json.dumps(self._indexes, ensure_ascii=False)
