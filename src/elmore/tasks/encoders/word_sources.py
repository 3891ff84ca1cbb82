"""Vectors of words that do not depend on their sentence: trained with the task, or from a file."""

# V words in the file, W distinct words of a batch, D vector dim
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn

from elmore.config import Frozen, one_line
from elmore.models.static import StaticVectors
from elmore.nn.char_cnn import CharCNN, CharCNNConfig
from elmore.tasks.encoded import Dims, Input, words_of
from elmore.tasks.encoders.source import Batch, SourceOutput, VectorSource
from elmore.text.byte_reader import ByteReader

UNKNOWN = 0  # the row of words that are too rare in the training set


class OwnConfig(Frozen):
    """Vectors that are trained with the task: of words, and of their spelling."""

    word_dim: int = Field(default=50, ge=1)
    min_count: int = Field(default=2, ge=1)
    """Words seen less often in the training set share the vector of unknown words."""
    char_dim: int = Field(default=16, ge=1)
    filters: tuple[tuple[int, int], ...] = ((2, 20), (3, 40), (4, 20))
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


def _rows(words: list[str], rows: dict[str, int], device: torch.device) -> Tensor:
    ids = [rows.get(word, UNKNOWN) for word in words]
    return torch.tensor(ids, dtype=torch.long, device=device)  # (W,)
