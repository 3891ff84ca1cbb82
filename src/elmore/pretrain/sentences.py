"""An endless, shuffled, resumable stream of sentences from files that are never held in memory.
A file is a shard: shards are shuffled, a few are read at a time, and a buffer of their blocks is
shuffled too. A position names the epoch, the first of these shards and how many of their blocks
have been handed out; going there rereads these few. `count_words` reads them once beforehand.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from elmore.config import Frozen
from elmore.errors import InputError
from elmore.files.sentence_files import LONGEST, Lines, SentenceFiles
from elmore.files.text_file import Errors

Words = list[str]
Block = list[Words]
Counting = Callable[[int, str], None]
"""Told how many there are so far, and of what: `words`, `pieces`."""

_COUNTED_AT_MOST = 20_000_000  # distinct words; beyond it the rarest are forgotten


class ReadingConfig(Frozen):
    """How files become sentences."""

    tokenize: bool = False
    """Lines are raw text, to be split into sentences and words; else one sentence per line."""
    lines: Lines = "auto"
    """With `tokenize`: what a line is."""
    longest: int | None = Field(default=LONGEST, ge=1)
    """Words of a sentence; longer ones are cut."""
    as_is: bool = False
    """Do not ask whether words separated by spaces are raw text."""
    errors: Errors = "strict"
    block: int = Field(default=1, ge=1)
    """Consecutive sentences that stay together in the order of the text."""
    buffer: int = Field(default=10_000, ge=1)
    """Blocks shuffled together; 1 keeps the order of the text."""
    together: int = Field(default=4, ge=1)
    """Files read in parallel; blocks are drawn in proportion to file size."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a stream."""

    epoch: int = 0
    shard: int = 0
    block: int = 0


def read_sentences(path: Path, config: ReadingConfig, *, check: bool = False) -> Iterator[Words]:
    """The sentences of one file; blank lines are skipped. `check` refuses raw text."""
    as_is = config.as_is or not check
    files = SentenceFiles(
        [path], config.tokenize, config.errors, config.lines, as_is, longest=config.longest
    )
    return iter(files)


def read_documents(path: Path, config: ReadingConfig) -> Iterator[Words | None]:
    """The same, with None for a blank line, which ends a document."""
    files = SentenceFiles(
        [path], config.tokenize, config.errors, config.lines, True, True, config.longest
    )
    return (words or None for words in files)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a corpus holds."""

    words: dict[str, int]
    n_sentences: int
    n_words: int


def count_words(files: list[Path], reading: ReadingConfig, counting: Counting | None) -> Counts:
    """One pass over the corpus, in memory that does not grow without bound."""
    counts: Counter[str] = Counter()
    n_sentences = n_words = 0
    for path in files:
        for words in read_sentences(path, reading, check=True):
            counts.update(words)
            n_sentences, n_words = n_sentences + 1, n_words + len(words)
            if counting is not None and n_sentences % 10_000 == 0:
                counting(n_words, "words")
            if len(counts) > _COUNTED_AT_MOST:
                counts = Counter({word: n for word, n in counts.items() if n > 1})
    if not n_sentences:
        names = ", ".join(str(path) for path in files[:3])
        raise InputError(f"{names}: no sentence found; expected one per line.")
    return Counts(counts, n_sentences, n_words)


class SentenceStream:
    """Blocks without end. Several processes share the work: whole shards if there are enough."""

    def __init__(
        self,
        files: Sequence[Path],
        config: ReadingConfig,
        *,
        seed: Sequence[int],
        rank: int = 0,
        n_ranks: int = 1,
        start: Position | None = None,
    ):
        self.files, self.config, self.seed = list(files), config, tuple(seed)
        self.rank, self.n_ranks = rank, n_ranks
        self.position = start or Position()
        self._blocks = self._run(self.position)

    def __iter__(self) -> "SentenceStream":
        return self

    def __next__(self) -> Block:
        position, block = next(self._blocks)
        self.position = position
        return block

    def _run(self, start: Position) -> Iterator[tuple[Position, Block]]:
        epoch = start.epoch
        while True:
            shards = self._shards(epoch)
            found_any = start.shard > 0 or start.block > 0
            for i in range(start.shard, len(shards), self._n_together):
                skip = start.block if i == start.shard else 0
                some = shards[i : i + self._n_together]
                for n, block in enumerate(self._shuffled(some, epoch), start=1):
                    found_any = True
                    if n > skip:
                        yield Position(epoch, i, n), block
            if not found_any:
                names = ", ".join(str(path) for path in self.files[:3])
                raise InputError(f"{names}: no sentence found; expected one per line.")
            epoch, start = epoch + 1, Position(epoch + 1)

    def _shards(self, epoch: int) -> list[Path]:
        order = list(self.files)
        if self.config.buffer > 1:
            rng = np.random.default_rng((*self.seed, epoch))
            order = [order[i] for i in rng.permutation(len(order))]
        return order[self.rank :: self.n_ranks] if self._by_shard else order

    @property
    def _by_shard(self) -> bool:
        return len(self.files) >= self.n_ranks

    @property
    def _n_together(self) -> int:
        return self.config.together if self.config.buffer > 1 else 1

    def _blocks_of(self, path: Path) -> Iterator[Block]:
        block: Block = []
        n = 0
        for words in read_sentences(path, self.config):
            block.append(words)
            if len(block) == self.config.block:
                if self._by_shard or n % self.n_ranks == self.rank:
                    yield block
                block, n = [], n + 1
        if block and (self._by_shard or n % self.n_ranks == self.rank):
            yield block

    def _mixed(self, paths: Sequence[Path], rng: np.random.Generator) -> Iterator[Block]:
        """Blocks of several files in turn, drawn by the files' sizes."""
        readers = [self._blocks_of(path) for path in paths]
        ends = np.cumsum([max(1, path.stat().st_size) for path in paths])
        while len(readers) > 1:
            i = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
            if (block := next(readers[i], None)) is not None:
                yield block
                continue
            del readers[i]
            sizes = np.delete(np.diff(ends, prepend=0), i)
            ends = np.cumsum(sizes)
        yield from readers[0]

    def _shuffled(self, paths: Sequence[Path], epoch: int) -> Iterator[Block]:
        """A reservoir: each block leaves at random once the buffer is full."""
        rng = np.random.default_rng((*self.seed, epoch, self.files.index(paths[0])))
        buffer: list[Block] = []
        for block in self._mixed(paths, rng):
            if len(buffer) < self.config.buffer:
                buffer.append(block)
                continue
            i = int(rng.integers(len(buffer)))
            buffer[i], block = block, buffer[i]
            yield block
        if self.config.buffer > 1:
            buffer = [buffer[i] for i in rng.permutation(len(buffer))]
        yield from buffer
