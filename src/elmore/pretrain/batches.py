"""Sentences into training batches, two ways. Rows: B rows read sentence after sentence, cut every T
steps, their LSTM state carried. Sentences: whole ones of like length, within a word budget.
Both can say where they stand in plain types, and go on from there exactly.
"""

# S = 2 directions, T steps, B rows, W distinct words, C places in a word's row
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from elmore.config import Frozen
from elmore.pretrain.sentences import Block, Position, SentenceStream, Words
from elmore.text.batching import batches_by_length
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END, Speller, WordBatch
from elmore.text.vocabulary import Vocabulary

IntArray = NDArray[np.int64]
_LINK = 1000
Direction = Literal["forward", "backward"]
OpenStream = Callable[[Direction, Position], SentenceStream]
_DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")


class RowsConfig(Frozen):
    """Rows of text with carried state, as in bilm-tf; for LSTMs."""

    kind: Literal["rows"] = "rows"
    rows: int = Field(default=128, ge=1)
    """In each process."""
    steps: int = Field(default=20, ge=1)
    forget: float = Field(default=0.0, ge=0.0, le=1.0)
    """Chance that a row's state is set back to zero before a batch. A model that never forgets
    may come to lean on the state it has drifted into, and do badly when it starts from zero."""


class SentencesConfig(Frozen):
    """Each sentence by itself, as it will be embedded."""

    kind: Literal["sentences"] = "sentences"
    words: int = Field(default=2560, ge=1)
    """In each batch of each process, marks and padding counted."""
    max_words: int = Field(default=400, ge=1)
    """Longer sentences are cut into pieces of this many words."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """T steps of B rows in both directions; the words are indexes into the distinct ones."""

    spelled: IntArray  # (W, C)
    index: IntArray  # (S, T, B)
    targets: IntArray  # (S, T, B)


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """Whole sentences with their marks, and the vocabulary ids of all their words."""

    words: WordBatch
    ids: IntArray  # (B, T)


class RowBatches:
    """The endless batches of `RowsConfig`. The directions read separately shuffled streams."""

    def __init__(
        self, open_stream: OpenStream, config: RowsConfig, speller: Speller, vocabulary: Vocabulary
    ):
        self.config, self.speller, self.vocabulary = config, speller, vocabulary
        self.open_stream = open_stream
        self.directions = [self._direction(name, Position()) for name in _DIRECTIONS]

    def _direction(self, name: Direction, start: Position) -> "_Direction":
        stream = self.open_stream(name, start)
        return _Direction(stream, self.config.rows, backward=name == "backward")

    def __iter__(self) -> Iterator[RowBatch]:
        while True:
            both = [direction.take(self.config.steps) for direction in self.directions]
            yield row_batch(both, self.speller, self.vocabulary)

    def state(self) -> Any:
        return [direction.state() for direction in self.directions]

    def restore(self, state: Any) -> None:
        for i, kept in enumerate(state):
            self.directions[i] = self._direction(_DIRECTIONS[i], Position(**kept["position"]))
            self.directions[i].pending = [_unpacked(text) for text in kept["pending"]]


class _Direction:
    """B rows reading one stream, each taking the next block when its own runs out."""

    def __init__(self, stream: SentenceStream, n_rows: int, *, backward: bool):
        self.stream, self.backward = stream, backward
        self.pending: list[list[Words]] = [[] for _ in range(n_rows)]
        """Each row's sequences, next first, with the marks already in place."""

    def take(self, n_steps: int) -> list[tuple[Words, Words]]:
        """For every row, T words to read and the T words that follow them."""
        return [self._take_row(row, n_steps) for row in self.pending]

    def _take_row(self, row: list[Words], n_steps: int) -> tuple[Words, Words]:
        read: Words = []
        predicted: Words = []
        while len(read) < n_steps:
            if not row:
                for words in next(self.stream):
                    row += _linked(marked(words, backward=self.backward))
            sequence, n = row[0], n_steps - len(read)
            # The last word is only ever predicted: after it the next sequence begins.
            read += sequence[: min(n, len(sequence) - 1)]
            predicted += sequence[1 : n + 1]
            row[0] = sequence[n:]
            if len(row[0]) <= 1:
                row.pop(0)
        return read, predicted

    def state(self) -> dict[str, Any]:
        return {
            "position": asdict(self.stream.position),
            "pending": ["\n".join(" ".join(words) for words in row) for row in self.pending],
        }


def _linked(sequence: Words) -> Iterator[Words]:
    """A long sequence in pieces, each beginning with the last word of the one before: read the
    same, without copying what is left of a million words at every cut."""
    for start in range(0, len(sequence) - 1, _LINK):
        yield sequence[start : start + _LINK + 1]


def _unpacked(text: str) -> list[Words]:
    return [line.split(" ") for line in text.split("\n")] if text else []


def marked(words: Words, *, backward: bool) -> Words:
    sequence = [SENTENCE_BEGIN, *words, SENTENCE_END]
    return sequence[::-1] if backward else sequence


def row_batch(
    both: list[list[tuple[Words, Words]]], speller: Speller, vocabulary: Vocabulary
) -> RowBatch:
    """Rows of (read, predicted) words for each direction, as numbers."""
    row_of: dict[str, int] = {}
    index = [
        [[row_of.setdefault(word, len(row_of)) for word in read] for read, _ in rows]
        for rows in both
    ]
    targets = [[[vocabulary.id(word) for word in predicted] for _, predicted in r] for r in both]
    return RowBatch(
        spelled=speller.spell(list(row_of)),
        index=np.array(index, dtype=np.int64).transpose(0, 2, 1),
        targets=np.array(targets, dtype=np.int64).transpose(0, 2, 1),
    )


class SentenceBatches:
    """The endless batches of `SentencesConfig`: windows sorted by length, batches shuffled."""

    _WINDOW_BATCHES = 50

    def __init__(
        self,
        open_stream: OpenStream,
        config: SentencesConfig,
        speller: Speller,
        vocabulary: Vocabulary,
        seed: int,
    ):
        self.open_stream, self.config, self.seed = open_stream, config, seed
        self.speller, self.vocabulary = speller, vocabulary
        self._start(Position(), 0)

    def _start(self, window_start: Position, taken: int) -> None:
        self.stream = self.open_stream("forward", window_start)
        self.window_start, self.taken = window_start, taken

    def __iter__(self) -> Iterator[SentenceBatch]:
        while True:
            for batch in self._window()[self.taken :]:
                self.taken += 1
                yield sentence_batch(batch, self.speller, self.vocabulary)
            self.window_start, self.taken = self.stream.position, 0

    def _window(self) -> list[list[Words]]:
        sentences: list[Words] = []
        n_words = 0
        while n_words < self._WINDOW_BATCHES * self.config.words:
            for words in pieces(next(self.stream), self.config.max_words):
                sentences.append(words)
                n_words += len(words) + 2
        cut = batches_by_length([self.speller.length(s) for s in sentences], self.config.words)
        batches = [[sentences[i] for i in batch] for batch in cut]
        at = self.window_start
        rng = np.random.default_rng((self.seed, at.epoch, at.shard, at.block))
        return [batches[i] for i in rng.permutation(len(batches))]

    def state(self) -> Any:
        return {"position": asdict(self.window_start), "taken": self.taken}

    def restore(self, state: Any) -> None:
        self._start(Position(**state["position"]), state["taken"])


def pieces(block: Block, max_words: int) -> Iterable[Words]:
    for words in block:
        for start in range(0, len(words), max_words):
            yield words[start : start + max_words]


def sentence_batch(
    sentences: list[Words], speller: Speller, vocabulary: Vocabulary
) -> SentenceBatch:
    words: WordBatch = speller.read(sentences)
    ids = np.zeros_like(words.index)  # (B, T)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence) + 2] = [
            vocabulary.begin, *(vocabulary.id(word) for word in sentence), vocabulary.end,
        ]  # fmt: skip
    return SentenceBatch(words, ids)
