"""What every reader of model files returns, and the checks they share."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import FormatError
from elmore.models.kinds import ModelConfig, build, identity
from elmore.models.layers import LayerModel
from elmore.models.lens import Lens
from elmore.text.reader import Reader
from elmore.text.vocabulary import Vocabulary

Values = TypeVar("Values")


class LearnedMix(Frozen):
    """How a task has mixed the model's layers: γ Σ softmax(scalars)_j h_j."""

    scalars: tuple[float, ...]
    gamma: float
    layer_norm: bool = False
    """Whether layers were normalized before they were mixed."""

    @property
    def weights(self) -> tuple[float, ...]:
        """s_j, the share of each layer; what `Embedding.mix` takes."""
        shares = torch.softmax(torch.tensor(self.scalars, dtype=torch.float64), dim=0)
        return tuple(shares.tolist())


class TrainedOn(Frozen):
    """How the text that a language model was trained on became words and sequences."""

    tokenize: bool
    """It was raw text; otherwise words were separated by spaces."""
    carry_state: bool
    """State was carried from sentence to sentence; otherwise each was read on its own."""
    max_words: int | None = Field(default=None, ge=1)
    """Longer sentences were cut into pieces of this many words."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model with its reader, its heads, and the options it was published with."""

    model: LayerModel
    reader: Reader | None
    """None for a model with a table of words whose vocabulary is missing."""
    heads: Mapping[str, nn.Module] = field(default_factory=dict)
    """What predicts from the layers; a biLM's is called `softmax`."""
    vocabulary: Vocabulary | None = None
    """The words that the softmax has rows for."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The foreign options file, unchanged, so that it can be written again in full."""
    mixes: tuple[LearnedMix, ...] = ()
    notes: tuple[str, ...] = ()
    """What the files do not say and was assumed."""
    trained_on: TrainedOn | None = None
    """None if the files do not say it."""
    lens: Lens | None = None
    """For meaning, if one was learned. The layers, and so the fingerprint, do not depend on it."""

    def need_reader(self) -> Reader:
        """The reader, or an error that says what is missing."""
        if self.reader is None:
            raise FormatError(
                "This model reads whole words, and its vocabulary is missing: put vocab.txt "
                "(one word per line, as in training) beside the weights."
            )
        return self.reader

    def fingerprint(self, precision: str = "float32") -> str:
        """Of config, weights, reader and precision: equal only if the vectors are equal."""
        digest = hashlib.sha256(identity(self.model.config))
        if precision != "float32":
            digest.update(f"{precision} 2".encode())  # the second version of rounding
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.float().cpu().contiguous().numpy().data)
        for content in self.need_reader().files().values():
            digest.update(content)
        return digest.hexdigest()


def build_model(config: ModelConfig, tensors: Mapping[str, Tensor], source: str) -> LayerModel:
    """A model with exactly `tensors`, or an error that names the first that does not fit."""
    model = empty_model(config, source)
    check_tensors({name: tuple(p.shape) for name, p in model.state_dict().items()}, tensors, source)
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise FormatError(f"{source}: '{name}' contains NaN or infinite values; damaged.")
    model.load_state_dict(dict(tensors), assign=True)
    return model.requires_grad_(False).eval()


def empty_model(config: ModelConfig, source: str) -> LayerModel:
    """Without any memory for its weights, for their names and shapes."""
    try:
        with torch.device("meta"):
            return build(config)
    except (RuntimeError, TypeError, OverflowError):  # sizes beyond what an int64 can count
        raise FormatError(f"{source}: its config calls for impossibly large tensors.") from None


def check_tensors(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, Tensor], source: str
) -> None:
    for name, shape in expected.items():
        if name not in found:
            raise FormatError(f"{source}: tensor '{name}' {shape} is missing.")
        if tuple(found[name].shape) != shape:
            raise FormatError(
                f"{source}: tensor '{name}' has shape {tuple(found[name].shape)}, "
                f"but its config calls for {shape}."
            )
    if extra := sorted(set(found) - set(expected)):
        raise FormatError(f"{source}: tensor '{extra[0]}' is not part of the model in its config.")


class NamedTensors(ABC, Generic[Values]):
    """Tensors of a file by their names there. The shape of each is checked before it is read, and
    when all are read none may be left over. Every foreign format of weights is one of these.
    `where` is the file, `judge` is what says which tensors it must have, both for messages."""

    def __init__(self, where: str, judge: str):
        self.where, self.judge = where, judge
        self.taken: set[str] = set()

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Every tensor that must be read."""

    @abstractmethod
    def find(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """The type and shape of a tensor, None if there is none of this name."""

    @abstractmethod
    def take(self, name: str, shape: tuple[int, ...]) -> Values:
        """The values of a tensor that must have this shape."""

    def rows(self, name: str) -> int | None:
        """The length of a table, None if there is none."""
        _, shape = self.find(name) or ("", ())
        return shape[0] if shape else None

    def claim(self, name: str, shape: tuple[int, ...]) -> None:
        """Check a tensor that is about to be read."""
        wanted = f"{self.judge} calls for float32 of shape {shape}"
        found = self.find(name)
        if found is None:
            raise FormatError(f"{self.where}: the tensor '{name}' is missing; {wanted}.")
        if found[1] != shape or "float" not in found[0]:
            raise FormatError(
                f"{self.where}: '{name}' is {found[0]} of shape {found[1]}, but {wanted}. "
                "They are probably from different models."
            )
        self.taken.add(name)

    def expect_nothing_else(self, prefixes: tuple[str, ...] = ("",)) -> None:
        """Every tensor whose name starts with one of `prefixes` must have been read."""
        left = sorted(n for n in self.names() if n not in self.taken and n.startswith(prefixes))
        if left:
            raise FormatError(
                f"{self.where}: contains '{left[0]}', which {self.judge} does not call for. "
                "They are probably from different models."
            )
