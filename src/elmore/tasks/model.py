"""A task's model: an encoder and the task's head on top; `evaluate` and `predict` are its own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmore.checkpoint.checkpoint import check_tensors
from elmore.embedder import find_device
from elmore.errors import FormatError, InputError
from elmore.tasks.encoded import Encoded, Places, arrange, words_of
from elmore.tasks.encoders.encoder import Encoder, build_encoder
from elmore.tasks.encoders.source import OwnVectors
from elmore.tasks.saved import (
    MODEL,
    SavedTask,
    best_epoch,
    check_digests,
    read_saved,
    read_shapes,
    read_tensors,
)
from elmore.tasks.task import Divided, Head, Score, State, Task, all_inputs
from elmore.tasks.tuning import task_of
from elmore.train.precision import Rounding, products_in
from elmore.uses.use_vectors import unwatched

ExampleWatch = Callable[[int, int], None]
"""Told how many examples are done, of how many."""

_BATCH = 64  # examples predicted together


class TaskModel(nn.Module):
    """A task, its encoder and its head: `evaluate` and `predict`, before and after training."""

    def __init__(self, task: Task[Any, Any, Any], encoder: Encoder, state: State):
        super().__init__()
        self.task, self.encoder, self.state = task, encoder, state
        self.head: Head[Any, Any] = task.head(state, encoder.dims)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        source: str | None = None,
        cache: Path | None = None,
        device: str = "auto",
    ) -> "TaskModel":
        """The best epoch of a training. `source` says where the pretrained vectors are now, if
        they have moved."""
        folder = Path(folder)
        saved, best = read_saved(folder), best_epoch(folder)
        check_digests(best)
        # The shapes in the file are compared before anything large is built: what the config says
        # cannot take more memory than the weights themselves.
        config, shapes = saved.fit.encoder, read_shapes(best / MODEL)
        moved = {"source": source or config.source}
        config = config.model_copy(
            update={**moved, "fine_tune": config.fine_tune or config.tunes is not None}
        )
        if (own := config.own) is not None and config.tunes is None:
            first = "encoder.sources.0."
            _compare(lambda: OwnVectors(own, saved.words), first, shapes, best)
        encoder = build_encoder(config, saved.words, cache=cache)
        check_pretrained(encoder, saved, folder)
        task = task_of(saved.fit)
        _compare(lambda: task.head(saved.state, encoder.dims), "head.", shapes, best)
        model = cls(task, encoder, saved.state).to(find_device(device))
        return load_weights(model, best).eval()

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def loss(self, examples: Sequence[Any], precision: Rounding = "float32") -> Tensor:
        """`precision` is that of the encoder's products, and of the head's where it is large."""
        with products_in(precision, self.device):
            encoded, places = self._encode(examples)
        added = [batch.loss for batch in encoded if batch.loss is not None]
        encoded = [batch.widened() for batch in encoded]
        with products_in(precision if self.head.large else "float32", self.device):
            loss = self.head.loss(encoded, places, examples)
        return sum(added, loss + self.encoder.penalty())

    def predict(self, examples: Sequence[Any], watch: ExampleWatch = unwatched) -> list[Any]:
        """In the order of the examples, whatever batches they are computed in."""
        if isinstance(self.task, Divided):
            return self._predict_parts(self.task, examples, watch)
        return self._predict(examples, watch)

    def _predict_parts(
        self, task: Divided[Any, Any], examples: Sequence[Any], watch: ExampleWatch
    ) -> list[Any]:
        """Part by part, so that memory does not grow with the number or the length of examples."""
        found = []
        for example in examples:
            parts = [self._predict([part], unwatched)[0] for part in task.parts(example)]
            found.append(task.whole(example, parts))
            watch(len(found), len(examples))
        return found

    def _predict(self, examples: Sequence[Any], watch: ExampleWatch) -> list[Any]:
        lengths = [self.length(example) for example in examples]
        predictions: list[Any] = [None] * len(examples)
        done = 0
        was_training = self.training
        self.eval()
        with torch.no_grad():
            for batch in plain_batches(lengths, _BATCH):
                chosen = [examples[i] for i in batch]
                found = self.head.predict(*self._encode(chosen), chosen)
                for i, prediction in zip(batch, found, strict=True):
                    predictions[i] = prediction
                done += len(batch)
                watch(done, len(examples))
        self.train(was_training)
        return predictions

    def evaluate(self, examples: Sequence[Any], watch: ExampleWatch = unwatched) -> Score:
        """The task's score, with what should be known about it."""
        if not examples:
            raise InputError("There are no examples to evaluate on.")
        # what is scored once is often scored again, after each epoch or by each seed
        self.encoder.prepare(all_inputs(self.task, examples))
        score = self.task.score(examples, self.predict(examples, watch))
        unlike = (*self.unseen(examples), *self.cut_words(examples), *nothing_right(score))
        return Score(score.figures, (*score.notes, *unlike))

    def adjust(self, settings: Sequence[str]) -> None:
        """Change how predictions are made, by `a.b=c`, where something can be changed."""
        self.task = self.head.adjusted(self.task, settings)

    def cut_words(self, examples: Sequence[Any]) -> tuple[str, ...]:
        """One note for each source of vectors that cannot read every word to its end, and what the
        head cannot read."""
        return (*self.encoder.notes(all_inputs(self.task, examples)), *self.head.notes(examples))

    def length(self, example: Any) -> int:
        """Words in the longest input of an example: its cost grows with them."""
        return max((len(words_of(item)) for item in self.task.inputs(example)), default=0)

    def _encode(self, examples: Sequence[Any]) -> tuple[list[Encoded], Places]:
        inputs = [self.task.inputs(example) for example in examples]
        batches, places = arrange(inputs, share=self.task.share_inputs)
        return [self.encoder(batch) for batch in batches], places

    def unseen(self, examples: Sequence[Any]) -> tuple[str, ...]:
        """Notes on what the examples need and training has not seen, such as labels."""
        return self.state.unseen(lambda: self.task.start(examples))


def nothing_right(score: Score) -> list[str]:
    """A note on a score of exactly 0."""
    name, value = next(iter(score.figures.items()))
    return [f"{name} is exactly 0: no prediction is right"] if value == 0 else []


def check_pretrained(encoder: Encoder, saved: SavedTask, folder: Path) -> None:
    """Refuse pretrained vectors that are not those of the training."""
    if encoder.fingerprints() != saved.fingerprints:
        raise InputError(
            f"{folder}: trained with other pretrained vectors than {encoder.config.source!r} holds "
            "now; give the ones it was trained with."
        )


def _compare(
    build: Callable[[], nn.Module], prefix: str, shapes: dict[str, tuple[int, ...]], epoch: Path
) -> None:
    """A part of the model, built without memory, with the shapes in the file."""
    with torch.device("meta"):
        part = build().state_dict()
    wanted = {f"{prefix}{name}": tuple(tensor.shape) for name, tensor in part.items()}
    found = {name: shape for name, shape in shapes.items() if name.startswith(prefix)}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise FormatError(
                f"{epoch / MODEL}: tensor '{name}' has shape {found.get(name, 'none')}, but its "
                f"config calls for {wanted.get(name, 'none')}."
            )


def load_weights(model: TaskModel, checkpoint: Path) -> TaskModel:
    tensors = read_tensors(checkpoint / MODEL)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    check_tensors(shapes, tensors, str(checkpoint / MODEL))
    model.load_state_dict(tensors)
    return model


def plain_batches(lengths: Sequence[int], batch: int) -> list[list[int]]:
    """Every index once, longest first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[i : i + batch] for i in range(0, len(order), batch)]
