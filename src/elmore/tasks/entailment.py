"""Does the hypothesis follow from the premise? ESIM: an RNN reads both, each word is compared with
what it is aligned to in the other sentence, a second RNN composes the comparisons, and their mean
and maximum decide. Labels may be any, so it also learns other tasks on pairs (paraphrases).
"""

# B pairs, T words of one sentence, D vector dim, H hidden units of one direction
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from elmore.config import Frozen
from elmore.nn.attention import align, masked_max, masked_mean
from elmore.nn.dropout import Dropout
from elmore.nn.rnn import BiRNN, SentenceDropout
from elmore.tasks.encoded import Batches, Dims, Encoded, Places, nth_inputs
from elmore.tasks.readers.pairs import Pair, read_pairs
from elmore.tasks.scorers.accuracy import label_accuracy
from elmore.tasks.task import Corpus, Head, Labels, Score, Words


class Entailment(Frozen):
    """Two sentences and one label."""

    share_inputs: ClassVar = False

    kind: Literal["entailment"] = "entailment"
    hidden: int = Field(default=100, ge=1, le=65_536)
    """Units in each direction of both RNNs, and in the last hidden layer."""
    dropout: float = Field(default=0.3, ge=0.0, lt=1.0)

    def read(self, path: Path, *, training: bool = False) -> Corpus[Pair]:
        return read_pairs(path)

    def read_plain(self, path: Path) -> Corpus[Pair]:
        return read_pairs(path, labeled=False)

    def inputs(self, example: Pair) -> Sequence[Words]:
        return example.premise, example.hypothesis

    def start(self, examples: Sequence[Pair]) -> Labels:
        found = {pair.label for pair in examples if pair.label is not None}
        return Labels(labels=tuple(sorted(found)))

    def head(self, state: Labels, dims: Dims) -> "ESIM":
        return ESIM(self, state.labels, dims)

    def score(self, examples: Sequence[Pair], predictions: Sequence[str]) -> Score:
        return label_accuracy([pair.label for pair in examples], predictions)

    def shown(self, example: Pair, prediction: str) -> dict[str, Any]:
        premise, hypothesis = " ".join(example.premise), " ".join(example.hypothesis)
        return {"premise": premise, "hypothesis": hypothesis, "label": prediction}


class ESIM(Head[Pair, str]):
    """The enhanced sequential inference model, without its parse trees."""

    def __init__(self, config: Entailment, labels: Sequence[str], dims: Dims):
        super().__init__()
        self.labels = tuple(labels)
        hidden, dropout = config.hidden, config.dropout
        self.dropout = SentenceDropout(dropout)
        self.read = BiRNN(dims.vectors, hidden)
        width = self.read.dim + dims.late
        self.compare = nn.Sequential(Dropout(dropout), nn.Linear(4 * width, hidden), nn.ReLU())
        self.compose = BiRNN(hidden, hidden, dropout)
        self.decide = nn.Sequential(
            Dropout(dropout),
            nn.Linear(4 * self.compose.dim, hidden),
            nn.Tanh(),
            Dropout(dropout),
            nn.Linear(hidden, len(self.labels)),
        )

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Pair]) -> Tensor:
        gold = [self.labels.index(pair.label) for pair in examples if pair.label is not None]
        scores = self._scores(encoded, places)
        return functional.cross_entropy(scores, torch.tensor(gold, device=scores.device))

    def predict(self, encoded: Batches, places: Places, examples: Sequence[Pair]) -> list[str]:
        return [self.labels[i] for i in self._scores(encoded, places).argmax(dim=-1).tolist()]

    def _scores(self, encoded: Batches, places: Places) -> Tensor:
        scores: Tensor = self(*(nth_inputs(encoded, places, n) for n in range(2)))
        return scores

    def forward(self, premise: Encoded, hypothesis: Encoded) -> Tensor:
        """Scores of the labels, (B, number of labels)."""
        a, b = self._read(premise, hypothesis)  # (B, T, 2H + late)
        from_b, from_a = align(a, premise.mask, b, hypothesis.mask)
        pooled = self._pooled(a, from_b, premise.mask), self._pooled(b, from_a, hypothesis.mask)
        scores: Tensor = self.decide(torch.cat(pooled, dim=-1))
        return scores

    def _read(self, *pair: Encoded) -> Iterator[Tensor]:
        """Both sentences lose the same numbers to dropout, or their words could not be compared."""
        joined = self.dropout(torch.cat([sentence.vectors for sentence in pair], dim=1))
        kept = joined.split([sentence.vectors.shape[1] for sentence in pair], dim=1)
        for sentence, vectors in zip(pair, kept, strict=True):
            yield sentence.with_late(self.read(vectors, sentence.mask))

    def _pooled(self, own: Tensor, other: Tensor, mask: Tensor) -> Tensor:
        compared = self.compare(torch.cat([own, other, own - other, own * other], dim=-1))
        y = self.compose(compared, mask)  # (B, T, 2H)
        return torch.cat([masked_mean(y, mask), masked_max(y, mask)], dim=-1)  # (B, 4H)
