"""The joint between tasks and everything else. A task reads examples, names its labels, makes a
head and scores predictions; an encoder turns the examples' sentences into vectors; `fit` and
`TaskModel` know nothing more than what is here.
"""

# B sentences, T words in the longest, D vector dim, E dim of the late vectors
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor, nn

Words = tuple[str, ...]

E = TypeVar("E")
P = TypeVar("P")
E_co = TypeVar("E_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Dims:
    """How wide an encoder's vectors are; `late` is 0 when it has none."""

    vectors: int
    late: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sentence slot of a batch. Vectors beyond a sentence's end are zero."""

    vectors: Tensor  # (B, T, D)
    mask: Tensor  # (B, T), true where there is a word
    late: Tensor | None = None  # (B, T, E)
    """A second mix, to be joined to what the task's RNN gives; None when `Dims.late` is 0."""

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(dim=1)  # (B,)


@dataclass(frozen=True, slots=True)
class Corpus(Generic[E_co]):
    """What a file holds, and what of it could not be used as it stood: never a silent drop."""

    examples: Sequence[E_co]
    notes: tuple[str, ...] = ()
    """One line each, with a count: `12 pairs without a label left out`."""


@dataclass(frozen=True, slots=True)
class Score:
    """Named figures in percent; the first is the one that counts, and higher is better."""

    figures: dict[str, float]
    notes: tuple[str, ...] = field(default=())
    """What whoever reads the figures should know, as in `Corpus`."""

    @property
    def main(self) -> float:
        return next(iter(self.figures.values()))


class Head(nn.Module, Generic[E, P]):
    """What a task puts on top of an encoder; it never learns what made the vectors."""

    def loss(self, inputs: tuple[Encoded, ...], examples: Sequence[E]) -> Tensor:
        """The mean over the batch; `inputs` has one entry for each sentence slot."""
        raise NotImplementedError

    def predict(self, inputs: tuple[Encoded, ...], examples: Sequence[E]) -> list[P]:
        """One prediction an example; labels of the examples must not be looked at."""
        raise NotImplementedError


class Task(Protocol[E, P]):
    """A frozen pydantic model whose fields are the task's settings, `kind` its name.

    A new task is one file with such a class, listed in `elmore.tasks.kinds`.
    """

    @property
    def kind(self) -> str: ...

    def read(self, path: Path, *, training: bool = False) -> Corpus[E]:
        """A file of labelled examples; some tasks read more from it for training."""

    def read_plain(self, path: Path) -> Corpus[E]:
        """A file of what there is to predict, without labels."""

    def sentences(self, example: E) -> tuple[Words, ...]:
        """One for each slot; every example of a task has as many."""

    def labels(self, examples: Sequence[E]) -> tuple[str, ...]:
        """The labels of the training examples in a fixed order; empty for a task without any."""

    def head(self, labels: Sequence[str], dims: Dims) -> Head[E, P]:
        """Fresh weights."""

    def score(self, examples: Sequence[E], predictions: Sequence[P]) -> Score: ...

    def shown(self, example: E, prediction: P) -> dict[str, Any]:
        """A prediction as one JSON object, with the words it is about."""
