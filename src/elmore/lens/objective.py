"""What the training loop asks for: pairs of a step, their loss, and where the run stands. The model
is frozen and runs by the engine; only the map and the output vectors learn.
"""

# n words of a batch, M uses that predict, K layers the map reads, D vector dim
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.native import save_tensors
from elmore.checkpoint.weight_files import open_safetensors
from elmore.embedder import Embedder
from elmore.embedding import Vectors
from elmore.errors import FormatError
from elmore.lens.config import LensConfig
from elmore.lens.nearby_pairs import PredictedWords, find_pairs
from elmore.lens.sample import Words
from elmore.models.lens import Lens
from elmore.nn.nearby_words import NearbyWords
from elmore.train.loop import Loss
from elmore.train.optimizer import Group

LEARNED = "learned.safetensors"
_LOOKED_AT = 4_096  # words whose vectors give the mean and the scale of the layers


class LensModule(nn.Module):
    """The map, of layers without their mean and at one scale, and the output vectors. It starts as
    the mean of the layers it reads."""

    mean: Tensor  # (K·D,)
    scale: Tensor  # ()

    def __init__(self, mean: Tensor, scale: Tensor, dim: int, n_words: int, negatives: float):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        n_layers = len(mean) // dim
        self.weight = nn.Parameter(torch.eye(dim).repeat(1, n_layers) / n_layers)  # (D, K·D)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.nearby = NearbyWords(n_words, dim, negatives)

    def forward(self, layers: Tensor) -> Tensor:
        """(M, K·D) -> (M, D)."""
        return nn.functional.linear((layers - self.mean) / self.scale, self.weight, self.bias)

    def lens(self, numbers: tuple[int, ...], about: str) -> Lens:
        """The map of the layers as they are."""
        weight = self.weight.detach() / self.scale
        bias = self.bias.detach() - weight @ self.mean
        return Lens(numbers, weight.numpy().copy(), bias.numpy().copy(), about)


class LensObjective:
    """A lens of one model, learned from one sample of sentences."""

    higher_is_better = False

    def __init__(
        self,
        embedder: Embedder,
        sentences: Sequence[Words],
        known: PredictedWords,
        numbers: tuple[int, ...],
        config: LensConfig,
    ):
        self._embedder, self._known = embedder, known
        self._numbers, self._config = list(numbers), config
        self._batches = batches(sentences, config.batch_words)
        self._next = 0
        self.map = self._start(sentences)
        self.module: nn.Module = self.map

    @property
    def n_batches(self) -> int:
        return len(self._batches)

    def _start(self, sentences: Sequence[Words]) -> LensModule:
        some = batches(sentences, _LOOKED_AT)[0]
        vectors = self._vectors(some)  # (n, K·D)
        mean = vectors.mean(axis=0, dtype=np.float64)
        scale = float(np.sqrt(np.square(vectors - mean).mean())) or 1.0
        return LensModule(
            torch.from_numpy(mean.astype(np.float32)),
            torch.tensor(scale, dtype=torch.float32),
            self._embedder.dim,
            len(self._known.numbers),
            self._config.negatives,
        )

    def _vectors(self, sentences: Sequence[Words]) -> Vectors:
        """The layers that are mapped, end to end: (n, K·D)."""
        found = self._embedder.runner.embed(sentences)
        parts = [np.concatenate(list(layers[self._numbers]), axis=-1) for layers in found]
        return np.concatenate(parts).astype(np.float32, copy=False)

    def groups(self) -> list[Group]:
        outputs = [self.map.nearby.outputs]
        return [Group([self.map.weight, self.map.bias]), Group(outputs, by_rows=True)]

    def begin(self, step: int, done: float) -> None:
        """Nothing to seed: the module draws no random numbers."""

    def next_loss(self, rng: np.random.Generator) -> Loss:
        sentences = self._batches[self._next % len(self._batches)]
        self._next += 1
        pairs = find_pairs(sentences, self._known, self._config, rng)
        samples = self._known.draw(self._config.samples, rng)
        layers = torch.from_numpy(self._vectors(sentences)[pairs.uses])  # (M, K·D)
        indexes = (torch.from_numpy(found) for found in (pairs.places, pairs.words, samples))
        total = self.map.nearby(self.map(layers), *indexes)
        return Loss(total, max(1, len(pairs.places)))

    def validate(self) -> dict[str, float]:
        return {}

    def state(self) -> int:
        return self._next

    def restore(self, state: int) -> None:
        self._next = int(state)

    def save(self, folder: Path) -> None:
        save_tensors(self.module.state_dict(), folder / LEARNED)

    def load(self, folder: Path) -> None:
        """What `save` has written."""
        path, expected = folder / LEARNED, self.module.state_dict()
        with open_safetensors(path) as file:
            names = list(file.keys())
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
            if shapes != {name: tuple(tensor.shape) for name, tensor in expected.items()}:
                raise FormatError(f"{path}: not of this run; remove {folder} to go back.")
            self.module.load_state_dict({name: file.get_tensor(name).clone() for name in expected})


def batches(sentences: Sequence[Words], n_words: int) -> list[list[Words]]:
    """Consecutive sentences, of at least `n_words` words together but for the last."""
    found: list[list[Words]] = [[]]
    size = 0
    for words in sentences:
        if size >= n_words:
            found.append([])
            size = 0
        found[-1].append(words)
        size += len(words)
    return found
