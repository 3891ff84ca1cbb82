"""A BERT that is trained with a task as its paper does it: all of it, from the first step on."""

# B inputs, T words in the longest, D vector dim
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from elmore.checkpoint.bert import bert_of
from elmore.elmo import TrainableLayers
from elmore.embedder import Embedder
from elmore.tasks.encoded import Dims, Input
from elmore.tasks.encoders.layer_sources import alike
from elmore.tasks.encoders.source import Batch, SourceOutput, VectorSource
from elmore.text.reader import Reader


class TunedBert(VectorSource):
    """The top layer at the first piece of each word, and the pooled `[CLS]` of each input."""

    reader: Reader

    def __init__(self, name: str, embedder: Embedder):
        super().__init__()
        config = bert_of(embedder.checkpoint).config
        self.name, self.fingerprint = name, embedder.fingerprint
        self.reader, self.max_positions = embedder.reader, config.max_positions
        self.trainable = TrainableLayers(embedder.checkpoint, fine_tune=True)
        self.dims = Dims(config.dim, pooled=config.dim if config.pooler else 0)

    def forward(self, batch: Batch) -> SourceOutput:
        states = self.trainable.layers(batch.inputs)
        return SourceOutput(states.layers[-1], pooled=states.pooled)  # (B, T, D), (B, D)

    def tuned(self) -> list[list[nn.Parameter]]:
        return self.trainable.model.floors()

    def long_inputs(self, inputs: Sequence[Input]) -> list[str]:
        assert self.reader is not None
        n = sum(self.reader.length(item) > self.max_positions for item in inputs)
        note = (
            f"{n:,} texts or pairs are longer than the {self.max_positions} positions of "
            f"{self.name}: they are read in windows, and a label is predicted from the first"
        )
        return [note] if n else []

    def unread(self, words: Sequence[str]) -> list[str]:
        return alike(self.name, words, self.lowest)

    @torch.no_grad()
    def lowest(self, words: Sequence[str]) -> list[NDArray[np.float32]]:
        """The embedding output (D,) of each word alone."""
        found = self.trainable.layers([(word,) for word in words])
        return list(found.layers[0, :, 0].cpu().numpy())
