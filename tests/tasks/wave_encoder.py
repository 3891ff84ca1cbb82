"""An encoder without weights for tests of heads: every word has a fixed vector of its own. And the
shortest training there is, to see that a head can learn.
"""

import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmore.tasks.encoded import Dims, Encoded, Place, Places, Words, arrange
from elmore.tasks.task import Head, Task

DIMS = Dims(16)
WITH_LATE = Dims(16, late=8)


@cache
def vector(word: str, dim: int) -> Tensor:
    rng = np.random.default_rng(zlib.crc32(word.encode()) + dim)
    return torch.from_numpy(rng.normal(size=dim).astype(np.float32))


def encode(sentences: Sequence[Words], dims: Dims = DIMS) -> Encoded:
    """A batch of sentences, padded with zeros to the longest."""
    longest = max(map(len, sentences), default=0)
    mask = torch.zeros(len(sentences), longest, dtype=torch.bool)
    vectors = torch.zeros(len(sentences), longest, dims.vectors)
    late = torch.zeros(len(sentences), longest, dims.late)
    for row, words in enumerate(sentences):
        mask[row, : len(words)] = True
        for i, word in enumerate(words):
            vectors[row, i], late[row, i] = vector(word, dims.vectors), vector(word, dims.late)
    return Encoded(vectors, mask, late if dims.late else None)


def encode_examples(
    task: Task[Any, Any, Any], examples: Sequence[Any], dims: Dims = DIMS
) -> tuple[list[Encoded], Places]:
    """As a `TaskModel` gives them to its head."""
    inputs = [task.inputs(example) for example in examples]
    batches, places = arrange(inputs, share=task.share_inputs)
    return [encode(batch, dims) for batch in batches], places


def one_each(encoded: Encoded) -> tuple[list[Encoded], Places]:
    """Every row is the only input of an example."""
    return [encoded], [[Place(0, row)] for row in range(len(encoded.mask))]


def learn(
    task: Task[Any, Any, Any], head: Head[Any, Any], examples: Sequence[Any], epochs: int
) -> None:
    """Adam over batches of 50, always the same ones."""
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    chunks = [examples[i : i + 50] for i in range(0, len(examples), 50)]
    batches = [(*encode_examples(task, chunk), chunk) for chunk in chunks]
    for _ in range(epochs):
        for batch in batches:
            optimizer.zero_grad()
            head.loss(*batch).backward()
            optimizer.step()


def predict(task: Task[Any, Any, Any], head: Head[Any, Any], examples: Sequence[Any]) -> list[Any]:
    with torch.no_grad():
        return head.eval().predict(*encode_examples(task, examples), examples)
