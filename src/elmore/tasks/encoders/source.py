"""What an encoder is made of: sources of vectors, each with its own share of every word's vector.
All sources have the same methods, so an encoder does not ask what kind a source is. Here are those
that do not depend on the sentence: vectors trained with the task, or from a file.
"""

# B inputs, T words in the longest, V words in the file, W distinct words of a batch,
# n words of a sentence, D vector dim
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, model_validator
from torch import Tensor, nn

from elmore.config import Frozen, one_line
from elmore.embedder import Streams
from elmore.embedding import Embedding, ReadSentence
from elmore.models.static import StaticVectors
from elmore.nn.char_cnn import CharCNN, CharCNNConfig
from elmore.nn.scalar_mix import ScalarMix
from elmore.tasks.encoded import Dims, Input, words_of
from elmore.text.byte_reader import ByteReader
from elmore.text.reader import Reader

Place = Literal["input", "late"]
UNKNOWN = 0  # the row of words that are too rare in the training set
WINDOW = 5
"""Words on either side that `StaticContext` averages."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs as indexes into their distinct words, so that each word is looked up once."""

    inputs: Sequence[Input]
    words: list[str]  # W
    index: Tensor  # (B, T), 0 where there is no word
    mask: Tensor  # (B, T)


def batch_of(inputs: Sequence[Input], device: torch.device) -> Batch:
    row_of: dict[str, int] = {}
    texts = [words_of(item) for item in inputs]
    longest = max(map(len, texts), default=0)
    index = np.zeros((len(texts), longest), dtype=np.int64)
    mask = np.zeros(index.shape, dtype=np.bool_)
    for i, words in enumerate(texts):
        index[i, : len(words)] = [row_of.setdefault(word, len(row_of)) for word in words]
        mask[i, : len(words)] = True
    tensors = (torch.from_numpy(array).to(device) for array in (index, mask))
    return Batch(inputs, list(row_of), *tensors)


@dataclass(frozen=True, slots=True)
class SourceOutput:
    """What a source adds to the input, what it adds late, and what it says of each input as a
    whole; None for nothing."""

    vectors: Tensor | None  # (B, T, D)
    late: Tensor | None = None  # (B, T, D)
    pooled: Tensor | None = None  # (B, D)
    loss: Tensor | None = None
    """What it adds to the loss of training."""


class LearnedMix(Frozen):
    """How a task mixes the layers of a model: the weights s_j and the scale γ."""

    model_config = ConfigDict(allow_inf_nan=False)

    source: str
    place: Place
    weights: tuple[float, ...] = Field(min_length=1)
    gamma: float


class VectorSource(nn.Module):
    """One kind of vectors. The defaults are those of vectors that only the task trains."""

    name: str
    dims: Dims
    fingerprint: str | None = None
    """Of pretrained vectors."""
    n_frozen: int | None = 0
    """Numbers in pretrained weights and tables that training leaves as they are; None where the
    model behind the vectors is not known."""
    reader: Reader | None = None
    """How it reads words; None where that is not known, or where every word is read whole."""

    def forward(self, batch: Batch) -> SourceOutput:
        raise NotImplementedError

    def prepare(self, inputs: Iterable[Input]) -> None:
        """Compute what can be computed once, for inputs that will be asked for."""

    def begin_epoch(self, epoch: int) -> None:
        """Epochs count from 1."""

    def tuned(self) -> list[list[nn.Parameter]]:
        """Pretrained weights that are trained further, by floors, top first."""
        return []

    def mixes(self) -> dict[Place, ScalarMix]:
        """By the place where their vectors are joined."""
        return {}

    def notes(self, words: Iterable[str]) -> list[str]:
        return [] if self.reader is None else cut_words(self.name, self.reader, words)

    def long_inputs(self, inputs: Sequence[Input]) -> list[str]:
        """A note on inputs that are too long to be read at once."""
        return []

    def unread(self, words: Sequence[str]) -> list[str]:
        """A note if most of these words, which all differ, have one and the same vector."""
        return []


def cut_words(name: str, reader: Reader, words: Iterable[str]) -> list[str]:
    """A note on the words that are longer than `name` reads; empty if there are none."""
    cut = [word for word in set(words) if reader.cuts(word)]
    longest = max(cut, key=len, default="")
    found = f"the longest has {len(longest)} characters: {longest[:20]!r}…"
    note = (
        f"{len(cut):,} different words are longer than {name} reads, and are cut for it ({found})"
    )
    return [note] if cut else []


class OwnConfig(Frozen):
    """Vectors that are trained with the task: of words, and of their spelling."""

    word_dim: int = Field(default=50, ge=1, le=65_536)
    min_count: int = Field(default=2, ge=1)
    """Words seen less often in the training set share the vector of unknown words."""
    char_dim: int = Field(default=16, ge=1, le=65_536)
    filters: tuple[tuple[int, int], ...] = Field(
        default=((2, 20), (3, 40), (4, 20)), max_length=100
    )
    max_characters: int = Field(default=50, ge=3)
    """Longer words are cut, here as in a biLM; the marks for begin and end count as two."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        try:
            _ = self.characters
        except ValidationError as error:
            raise ValueError(f"the spelling: {one_line(error)}") from None
        return self

    @property
    def characters(self) -> CharCNNConfig:
        n_filters = sum(count for _, count in self.filters)
        return CharCNNConfig(
            char_dim=self.char_dim, filters=self.filters, max_characters=self.max_characters,
            n_highway=0, dim=n_filters, project=False,
        )  # fmt: skip


def own_words(config: OwnConfig, inputs: Iterable[Input]) -> tuple[str, ...]:
    """The words of a training set that are frequent enough for vectors of their own, in a fixed
    order: by falling count, then by spelling."""
    counts = Counter(word for item in inputs for word in words_of(item))
    kept = [word for word, n in counts.items() if n >= config.min_count]
    return tuple(sorted(kept, key=lambda word: (-counts[word], word)))


class OwnVectors(VectorSource):
    """A word's own vector beside that of its spelling; the baseline's input, and in every stack."""

    name = "the trained spelling"
    reader: ByteReader

    def __init__(self, config: OwnConfig, words: Sequence[str]):
        super().__init__()
        self.rows = {word: row for row, word in enumerate(words, start=UNKNOWN + 1)}
        self.reader = ByteReader(config.max_characters)
        self.embed = nn.Embedding(len(words) + 1, config.word_dim)
        nn.init.normal_(self.embed.weight, std=config.word_dim**-0.5)
        self.spell = CharCNN(config.characters)
        for parameter in self.spell.convolutions.parameters():
            # from the small initial weights of a biLM, a task has too few steps to learn
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        self.dims = Dims(config.word_dim + config.characters.dim)

    def forward(self, batch: Batch) -> SourceOutput:
        device = batch.index.device
        spelled = self.spell(torch.from_numpy(self.reader.spell(batch.words)).to(device))
        embedded = self.embed(_rows(batch.words, self.rows, device))
        vectors = torch.cat([embedded, spelled], dim=-1)  # (W, D)
        return SourceOutput(F.embedding(batch.index, vectors))


class StaticWords(VectorSource):
    """Vectors from a file; corrections may be learned for the words of the training set."""

    table: Tensor  # (V, D)

    def __init__(self, name: str, vectors: StaticVectors, words: Sequence[str], *, tune: bool):
        super().__init__()
        self.name, self.fingerprint = name, vectors.fingerprint
        self.n_frozen = vectors.vectors.size
        self.static = vectors
        self.register_buffer("table", torch.from_numpy(vectors.vectors), persistent=False)
        self.rows = {word: row for row, word in enumerate(words, start=UNKNOWN + 1)}
        self.correction = (
            nn.Embedding(len(words) + 1, vectors.dim, padding_idx=UNKNOWN) if tune else None
        )
        if self.correction is not None:
            nn.init.zeros_(self.correction.weight)
        self.dims = Dims(vectors.dim)

    def forward(self, batch: Batch) -> SourceOutput:
        found = [self.static.row(word) for word in batch.words]
        known = self.table.new_tensor([[row is not None] for row in found])  # (W, 1)
        vectors = self.table[[row or 0 for row in found]] * known  # (W, D), zero if not in the file
        if self.correction is not None:
            rows = _rows(batch.words, self.rows, batch.index.device)
            vectors = vectors + self.correction(rows)
        return SourceOutput(F.embedding(batch.index, vectors))

    def unread(self, words: Sequence[str]) -> list[str]:
        n = sum(self.static.row(word) is None for word in words)
        note = f"{self.name} has no vector for {n:,} of {len(words):,} different words"
        return [note] if 2 * n > len(words) else []


def _rows(words: list[str], rows: dict[str, int], device: torch.device) -> Tensor:
    ids = [rows.get(word, UNKNOWN) for word in words]
    return torch.tensor(ids, dtype=torch.long, device=device)  # (W,)


class StaticContext(Streams):
    """Static vectors as layers, for comparison with a biLM: a word's own vector, and the mean of
    the words around it. A word without a vector has zeros, and does not count as a neighbor."""

    n_layers = 2
    context_free = True

    def __init__(self, vectors: StaticVectors, window: int = WINDOW):
        self.vectors, self.window, self.dim = vectors, window, vectors.dim
        self.fingerprint = f"{vectors.fingerprint} {window}"

    def _embed_window(self, sentences: list[ReadSentence], batch_words: int) -> list[Embedding]:
        return [self._embed(sentence) for sentence in sentences]

    def _embed(self, sentence: ReadSentence) -> Embedding:
        rows = [self.vectors.row(word) for word in sentence.words]
        known = np.array([row is not None for row in rows], dtype=bool)
        own = np.zeros((len(rows), self.dim), np.float32)  # (n, D)
        own[known] = self.vectors.vectors[[row for row in rows if row is not None]]
        around = _around(own, known, self.window)
        return Embedding(sentence.words, np.stack([own, around]), sentence.spans)


def _around(own: NDArray[np.float32], known: NDArray[np.bool_], window: int) -> NDArray[np.float32]:
    """By differences of running sums, in double precision."""
    counted = np.column_stack([known, own]).astype(np.float64)  # (n, 1 + D)
    sums = np.vstack([np.zeros((1, counted.shape[1])), counted.cumsum(axis=0)])  # (n + 1, 1 + D)
    place = np.arange(len(own))
    first, last = np.maximum(place - window, 0), np.minimum(place + window + 1, len(own))
    total = sums[last] - sums[first] - counted  # (n, 1 + D)
    return np.asarray(total[:, 1:] / np.maximum(total[:, :1], 1), np.float32)  # (n, D)
