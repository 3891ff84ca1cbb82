"""What an encoder is made of: sources of vectors, each with its own share of every word's vector.
All sources have the same methods, so an encoder does not ask what kind a source is.
"""

# B inputs, T words in the longest, W distinct words, D vector dim
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.scalar_mix import ScalarMix
from elmore.tasks.encoded import Dims, Input, words_of
from elmore.text.reader import Reader

Place = Literal["input", "late"]


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
    """What a source adds to the input, and what it adds late; None for nothing."""

    vectors: Tensor | None  # (B, T, D)
    late: Tensor | None = None  # (B, T, D)


class LearnedMix(Frozen):
    """How a task mixes the layers of a model: the weights s_j and the scale γ."""

    source: str
    place: Place
    weights: tuple[float, ...]
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

    def tuned(self) -> list[nn.Parameter]:
        """Pretrained weights that are trained further, at a smaller rate."""
        return []

    def mixes(self) -> dict[Place, ScalarMix]:
        """By the place where their vectors are joined."""
        return {}

    def notes(self, words: Iterable[str]) -> list[str]:
        return [] if self.reader is None else cut_words(self.name, self.reader, words)


def cut_words(name: str, reader: Reader, words: Iterable[str]) -> list[str]:
    """A note on the words that are longer than `name` reads; empty if there are none."""
    cut = [word for word in set(words) if reader.cuts(word)]
    longest = max(cut, key=len, default="")
    found = f"the longest has {len(longest)} characters: {longest[:20]!r}…"
    note = (
        f"{len(cut):,} different words are longer than {name} reads, and are cut for it ({found})"
    )
    return [note] if cut else []
