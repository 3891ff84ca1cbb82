"""The joint between tasks and everything else. A task reads examples, learns its labels (or other
state) from them, builds a head and scores predictions; an encoder turns the examples' inputs into
vectors. `fit` and `TaskModel` use nothing more than what is here.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, Self, TypeVar, runtime_checkable

from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import ConfigError
from elmore.tasks.corpus import Corpus as Corpus
from elmore.tasks.corpus import Words as Words
from elmore.tasks.encoded import Batches, Dims, Input, Places
from elmore.tasks.scorers.score import Score as Score
from elmore.train.optimizer import Group

E = TypeVar("E")
P = TypeVar("P")
S = TypeVar("S")


class State(Frozen):
    """What a task takes from its training examples before training; saved as JSON."""

    kind: str

    def unseen(self, later: Callable[[], Self]) -> tuple[str, ...]:
        """Notes on what other examples need and the training examples did not have; `later` makes
        the state that these would give."""
        return ()


class Labels(State):
    """The labels of the training examples in a fixed order; a task without labels has none."""

    kind: Literal["labels"] = "labels"
    labels: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=5_000)

    def unseen(self, later: Callable[[], Self]) -> tuple[str, ...]:
        unseen = [label for label in later().labels if label not in self.labels]
        listed = ", ".join(unseen[:10]) + ("…" if len(unseen) > 10 else "")
        never = "not seen in training: never predicted, so counted as wrong"
        return (f"{len(unseen)} labels {never}: {listed}",) if unseen else ()


class Head(nn.Module, Generic[E, P]):
    """The part of a task's model on top of an encoder. It does not know what made the vectors.

    `encoded` has the inputs of a batch of examples, `places` says which of them belong to each
    example; `nth_inputs` gives one row per example.
    """

    def loss(self, encoded: Batches, places: Places, examples: Sequence[E]) -> Tensor:
        """The mean over the batch."""
        raise NotImplementedError

    large = False
    """Whether its own products are worth rounding in training (`precision`); else only those of the
    encoder are, and nothing in the head has to expect rounded numbers."""
    quick = False
    """Whether predictions only choose the best epoch: they may then be made in a cheaper way."""

    def predict(self, encoded: Batches, places: Places, examples: Sequence[E]) -> list[P]:
        """One prediction per example. The labels of the examples must not be used."""
        raise NotImplementedError

    def prepare(self, train: Sequence[E]) -> None:
        """Once before training, and before it is resumed: pretrained weights are put in place."""

    def groups(self) -> list[Group]:
        """Its parameters that are trained at a rate of their own."""
        return []

    def notes(self, examples: Sequence[E]) -> tuple[str, ...]:
        """On what it cannot read as it is."""
        return ()

    def adjusted(self, task: Any, settings: Sequence[str]) -> Any:
        """Change how predictions are made, by `a.b=c`. Returns the task with these settings."""
        if settings:
            raise ConfigError(f"--set {settings[0]}: there is nothing to set in the predictions.")
        return task


class Task(Protocol[E, P, S]):
    """A frozen pydantic model whose fields are the task's settings, `kind` its name.

    A new task is one file with such a class, listed in `elmore.tasks.recipes`.
    """

    @property
    def kind(self) -> str: ...

    @property
    def share_inputs(self) -> bool:
        """Whether each distinct input of a batch is encoded once, for all examples that have it.

        Else every example has the same number of inputs, and a row of its own for each: the tasks
        of ELMo's paper were first trained so. Sharing would change their results in the last
        digits: gradients would be summed in another order, and the dropout of a fine-tuned model
        is drawn per row. Frozen layers are computed once for each distinct input in either case.
        """

    def read(self, path: Path, *, training: bool = False) -> Corpus[E]:
        """A file of labeled examples; some tasks read more from it for training."""

    def read_plain(self, path: Path) -> Corpus[E]:
        """A file of inputs without labels, to predict from."""

    def inputs(self, example: E) -> Sequence[Input]:
        """The texts of an example that an encoder reads, any number of them."""

    def start(self, examples: Sequence[E]) -> S:
        """What must be known of the training examples before a head can be built."""

    def head(self, state: S, dims: Dims) -> Head[E, P]:
        """With fresh weights."""

    def score(self, examples: Sequence[E], predictions: Sequence[P]) -> Score: ...

    def shown(self, example: E, prediction: P) -> dict[str, Any]:
        """A prediction as one JSON object, with the words it is about."""


@runtime_checkable
class Divided(Protocol[E, P]):
    """A task whose examples may be too long to be predicted at once: one part after another."""

    def parts(self, example: E) -> Sequence[E]: ...

    def whole(self, example: E, predictions: Sequence[P]) -> P:
        """From the predictions for its parts, in their order."""


def all_inputs(task: Task[Any, Any, Any], examples: Iterable[Any]) -> list[Input]:
    """The inputs of all examples, one after another."""
    return [item for example in examples for item in task.inputs(example)]
