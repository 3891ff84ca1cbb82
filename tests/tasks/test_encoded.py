"""Where an example finds its own inputs, and a task whose examples share theirs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.tasks.encoded import Dims, Encoded, Place, Places, Words, arrange, nth_inputs
from elmore.tasks.encoders.encoder import Encoder, EncoderConfig, build_encoder
from elmore.tasks.model import TaskModel
from elmore.tasks.task import Corpus, Head, Score, State
from tests.tasks.tiny_tasks import OWN
from tests.tasks.wave_encoder import encode

A, B, C = ("a", "b"), ("c",), ("a", "d", "e")


def test_without_sharing_each_slot_is_a_batch_with_one_row_per_example():
    batches, places = arrange([(A, B), (C, B)], share=False)
    assert batches == [[A, C], [B, B]]
    assert places == [[Place(0, 0), Place(1, 0)], [Place(0, 1), Place(1, 1)]]


def test_with_sharing_each_distinct_input_is_one_row():
    batches, places = arrange([(A, B), (), (C, A, A)], share=True)
    assert batches == [[A, B, C]]
    assert [[place.row for place in own] for own in places] == [[0, 1], [], [2, 0, 0]]


def test_the_nth_inputs_are_the_same_either_way():
    inputs = [(A, B), (C, B), (A, C)]
    for n in range(2):
        found = []
        for share in (False, True):
            batches, places = arrange(inputs, share=share)
            found.append(nth_inputs([encode(batch) for batch in batches], places, n))
        apart, shared = found
        width = apart.mask.shape[1]
        assert torch.equal(apart.vectors, shared.vectors[:, :width])
        assert not shared.mask[:, width:].any()


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences of any number, and how many words they have."""

    sentences: tuple[Words, ...]


class Known(State):
    """What the training examples have taught before training."""

    kind: Literal["known"] = "known"
    most: int

    def unseen(self, later: Callable[[], "Known"]) -> tuple[str, ...]:
        return ("longer than any before",) if later().most > self.most else ()


class Counting(Frozen):
    """A task with documents as examples: the sum of a score of each sentence."""

    share_inputs: ClassVar = True

    kind: Literal["counting"] = "counting"

    def read(self, path: Path, *, training: bool = False) -> Corpus[Document]:
        raise NotImplementedError

    def read_plain(self, path: Path) -> Corpus[Document]:
        raise NotImplementedError

    def inputs(self, example: Document) -> Sequence[Words]:
        return example.sentences

    def start(self, examples: Sequence[Document]) -> Known:
        return Known(most=max(len(example.sentences) for example in examples))

    def head(self, state: Known, dims: Dims) -> "CountingHead":
        return CountingHead(dims)

    def score(self, examples: Sequence[Document], predictions: Sequence[float]) -> Score:
        return Score({"sum": sum(predictions)})

    def shown(self, example: Document, prediction: float) -> dict[str, Any]:
        return {"sum": prediction}


class CountingHead(Head[Document, float]):
    def __init__(self, dims: Dims):
        super().__init__()
        self.weigh = nn.Linear(dims.vectors, 1)

    def sums(self, encoded: Sequence[Encoded], places: Places) -> Tensor:
        (batch,) = encoded
        scores = self.weigh(batch.vectors).squeeze(-1).mul(batch.mask).sum(dim=1)  # (inputs,)
        return torch.stack([scores[[place.row for place in own]].sum() for own in places])

    def loss(
        self, encoded: Sequence[Encoded], places: Places, examples: Sequence[Document]
    ) -> Tensor:
        return self.sums(encoded, places).square().mean()

    def predict(
        self, encoded: Sequence[Encoded], places: Places, examples: Sequence[Document]
    ) -> list[float]:
        found: list[float] = self.sums(encoded, places).tolist()
        return found


def test_a_task_may_have_any_number_of_inputs_and_a_state_of_its_own(monkeypatch):
    torch.manual_seed(0)
    encoder = build_encoder(EncoderConfig(own=OWN), ())
    n_rows: list[int] = []
    forward = Encoder.forward

    def counted(self: Encoder, inputs: Sequence[Words]) -> Encoded:
        n_rows.append(len(inputs))
        return forward(self, inputs)

    monkeypatch.setattr(Encoder, "forward", counted)
    model = TaskModel(Counting(), encoder, Known(most=2))
    examples = [Document((A, B, A)), Document((B,)), Document((C, A))]
    together = model.predict(examples)
    assert n_rows == [3]  # six inputs, three of them distinct
    torch.testing.assert_close(together, [model.predict([e])[0] for e in examples])
    assert model.evaluate(examples).notes == ("longer than any before",)
    model.loss(examples).backward()
    assert all(p.grad is not None for p in model.parameters())
