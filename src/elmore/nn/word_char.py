"""The other ways into a biLM. A word table has one learned vector per word of a vocabulary. In
ELMoForManyLangs, a learned vector of the whole word and one of its spelling are projected together;
models without word vectors have only the spelling.
"""

# W words, C characters in a row, E word dim, F filters, D output dim
from typing import Any, Literal

import torch
from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from torch import Tensor, nn

from elmore.config import EVERY_NAME, Frozen
from elmore.nn.char_cnn import CharCNN, CharCNNConfig


class WordTableConfig(Frozen):
    """A table of word vectors, indexed by the model's own vocabulary."""

    kind: Literal["words"] = "words"
    n_words: int = Field(ge=1)
    dim: int = Field(ge=1)


class WordTable(nn.Module):
    """Look words up; the row of a word is its id."""

    def __init__(self, config: WordTableConfig):
        super().__init__()
        self.config = config
        table = torch.empty(config.n_words, config.dim)
        self.embed = nn.Embedding(config.n_words, config.dim, _weight=table)
        if not table.is_meta:
            nn.init.normal_(table)

    def forward(self, rows: Tensor) -> Tensor:
        vectors: Tensor = self.embed(rows.squeeze(1))  # (W, 1) -> (W, D)
        return vectors


class WordCharConfig(Frozen):
    """Two dictionaries: of characters, and of words unless `word_dim` is 0."""

    kind: Literal["dictionary"] = "dictionary"
    characters: CharCNNConfig
    """Without a projection of its own."""
    n_words: int = Field(default=0, ge=0)
    word_dim: int = Field(default=0, ge=0)
    dim: int = Field(default=512, ge=1)
    classes: bool = False
    """Of a new model: its characters are the corpus's most frequent, not the vocabulary's, and each
    other one falls into a class (text/character_classes.py)."""

    @model_serializer(mode="wrap")
    def _saved(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        """Without `classes` where there are none: so it is in models of earlier versions, which
        keep their fingerprints."""
        saved: dict[str, Any] = handler(self)
        if not self.classes and info.context != EVERY_NAME:
            saved.pop("classes", None)
        return saved

    @model_validator(mode="after")
    def _fits(self) -> "WordCharConfig":
        if self.characters.project:
            raise ValueError("characters.project is true; words and characters share a projection")
        if (self.n_words == 0) != (self.word_dim == 0):
            raise ValueError(f"n_words={self.n_words} with word_dim={self.word_dim}")
        return self

    @property
    def max_characters(self) -> int:
        return self.characters.max_characters


class WordChar(nn.Module):
    """Rows are [word id,] character ids; the word's vector comes before its spelling's."""

    def __init__(self, config: WordCharConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.n_words, config.word_dim) if config.word_dim else None
        self.spell = CharCNN(config.characters)
        self.project = nn.Linear(config.word_dim + config.characters.n_filters, config.dim)

    def forward(self, rows: Tensor) -> Tensor:
        if self.embed is None:
            x = self.spell(rows)  # (W, F)
        else:
            x = torch.cat([self.embed(rows[:, 0]), self.spell(rows[:, 1:])], dim=-1)  # (W, E + F)
        vectors: Tensor = self.project(x)  # (W, D)
        return vectors
