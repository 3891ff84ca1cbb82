"""From lines to vectors, one window at a time. A window knows the number of lines read so far and
their checksum, so that a resumed run can check that its text is the same.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from elmore.dump.config import DumpConfig
from elmore.embedder import Embedder
from elmore.embedding import Embedding, Sentence, Vectors, layer_choice
from elmore.errors import InputError
from elmore.files.sentence_files import TextSentence, line_words
from elmore.text.batching import windows as grouped

MAX_MAP_BYTES = 64_000_000  # of sentences; a larger map would cost more memory than the model


class Line(NamedTuple):
    """The number of a line, its sentence, its words if they are known, and the bytes and the
    checksum of the input up to its end."""

    number: int
    sentence: str
    words: list[str] | None
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One line of the input and its vectors."""

    index: int
    sentence: str
    words: list[str]
    vectors: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Consecutive items; the rest is that of the whole input up to their end."""

    items: list[Item]
    lines: int
    bytes: int
    sha256: str


class LineReader:
    """Reads the input, counts it and hashes it: one window ahead of its vectors, or as many as are
    being computed."""

    def __init__(self, lines: Iterable[str | TextSentence]):
        self._lines = iter(lines)
        self._words: list[str] | None = None
        self._digest = hashlib.sha256()
        self.lines = 0
        self.bytes = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def read(self) -> str | None:
        """The next line, None at the end."""
        try:
            found = next(self._lines, None)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(
                f"The input cannot be read after line {self.lines} ({reason})."
            ) from None
        if found is None:
            return None
        line, self._words = (found, None) if isinstance(found, str) else found
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
                f"Line {self.lines} of the input has half a surrogate pair at position "
                f"{error.start}, which cannot be written to a file; remove it."
            ) from None

    def rest(self) -> Iterator[Line]:
        while (line := self.read()) is not None:
            yield Line(self.lines - 1, line.strip(), self._words, self.bytes, self.sha256)


def embedded(embedder: Embedder, reader: LineReader, config: DumpConfig) -> Iterator[Window]:
    """The rest of the input. Windows are the same wherever reading begins, if it begins at the end
    of a window: resumed runs compute the same batches."""
    choice = layer_choice(config.layers, embedder.n_layers, lens=embedder.lens)

    def item(line: Line, embedding: Embedding) -> Item:
        vectors = choice.select(embedding.layers, embedding.lens)  # (K, n, D)
        chosen = vectors[0] if config.is_one_layer else vectors
        return Item(line.number, line.sentence, embedding.words, chosen)

    for window in _embeddings(embedder, reader.rest(), config):
        last, _ = window[-1]
        yield Window([item(*pair) for pair in window], last.number + 1, last.bytes, last.sha256)


def _embeddings(
    embedder: Embedder, lines: Iterator[Line], config: DumpConfig
) -> Iterator[list[tuple[Line, Embedding]]]:
    def words(line: Line) -> Sentence:
        if line.words is not None:
            return line.words
        return line_words(line.sentence, tokenize=config.tokenize)

    if not config.stateful:
        yield from embedder.stream_windows(lines, words, config.batch_words)
        return
    rows = config.batch_sentences
    with embedder.stateful() as run:
        for batch in grouped(((line, 1) for line in lines), rows, rows):
            yield list(zip(batch, run.embed([words(line) for line in batch]), strict=True))


class SentenceMap:
    """AllenNLP's `sentence_to_index`: the index of each sentence, the last one if repeated."""

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
        """As JSON; None if it is not wanted or too large."""
        if not self._wanted or self.left_out:
            return None
        return json.dumps(self._indexes, ensure_ascii=False)
