"""A model that nothing in `src` knows: no characters, no marks, and a layer 0 that sees context. It
stands for every kind of model that is still to come.
"""

# B sentences, T words in the longest, n words of one, D vector dim
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.config import Frozen
from elmore.errors import InputError
from elmore.models.layers import LayerModel, LayerStates
from elmore.text.reader import Input, Pair


class ToyConfig(Frozen):
    """How many words it tells apart, and how long its vectors are."""

    kind: Literal["toy"] = "toy"
    n_ids: int = 50
    dim: int = 6


@dataclass(frozen=True, slots=True)
class ToyBatch:
    """One row of ids per sentence."""

    ids: list[NDArray[np.int64]]


class ToyReader:
    """A word is the checksum of its letters, and a word of the salt."""

    def __init__(self, n_ids: int, salt: bytes = b""):
        self.n_ids, self.salt = n_ids, salt

    def read(self, inputs: Sequence[Input]) -> ToyBatch:
        return ToyBatch([np.array([self._id(w) for w in self._words(i)], np.int64) for i in inputs])

    def length(self, item: Input) -> int:
        return len(self._words(item))

    def cuts(self, word: str) -> bool:
        return False

    def unreadable(self, word: str) -> bool:
        return False

    def files(self) -> dict[str, bytes]:
        return {"salt.bin": self.salt}

    def _id(self, word: str) -> int:
        return zlib.crc32(self.salt + word.encode("utf-8", "surrogatepass")) % self.n_ids

    def _words(self, item: Input) -> Sequence[str]:
        if isinstance(item, Pair):
            raise InputError("A toy reads one text at a time.")
        return item


class Toy(LayerModel):
    """Layer 0: a word's vector and the mean of its sentence. Layer 1: a small network of that."""

    context_free = False
    n_layers = 2

    def __init__(self, config: ToyConfig):
        super().__init__()
        self.config, self.dim = config, config.dim
        self.embed = nn.Embedding(config.n_ids, config.dim)
        self.above = nn.Linear(config.dim, config.dim)

    def forward(self, batch: ToyBatch) -> LayerStates:
        lengths = torch.tensor([len(ids) for ids in batch.ids])
        longest = int(lengths.max()) if len(lengths) else 0
        sentences = [self._layers(torch.from_numpy(ids)) for ids in batch.ids]  # (2, n, D) each
        rows = [nn.functional.pad(s, (0, 0, 0, longest - s.shape[1])) for s in sentences]
        mask = torch.arange(longest) < lengths.unsqueeze(1)
        return LayerStates(torch.stack(rows, dim=1), mask)

    def _layers(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + x.sum(dim=0) / max(1, len(ids))
        return torch.stack([x, self.above(x).tanh()])

    def floors(self) -> list[list[nn.Parameter]]:
        return [[*self.above.parameters()], [*self.embed.parameters()]]


def toy_checkpoint(
    config: ToyConfig | None = None, *, salt: bytes = b"", seed: int = 0
) -> Checkpoint:
    torch.manual_seed(seed)
    config = config or ToyConfig()
    model = Toy(config).requires_grad_(False).eval()
    return Checkpoint(model=model, reader=ToyReader(config.n_ids, salt))
