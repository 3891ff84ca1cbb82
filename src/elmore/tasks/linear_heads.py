"""Heads of a fine-tuned BERT, each a single linear layer: on the pooled `[CLS]` for a label, on the
first piece of every word for tags, and for an answer's first and last word.
"""

# B examples, T words in the longest input, D vector dim, K labels
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.errors import ConfigError
from elmore.models.bert import initialize
from elmore.nn.dropout import Dropout
from elmore.tasks.encoded import Batches, Dims, Encoded, Places, nth_inputs
from elmore.tasks.question_answering import Answer, best_spans
from elmore.tasks.readers.squad import Question
from elmore.tasks.tagging import Tagged, Tags
from elmore.tasks.task import Head


class HasLabel(Protocol):
    """A text or a pair, with its label where that is known."""

    @property
    def label(self) -> str | None: ...


def _linear(dim: int, n: int) -> nn.Linear:
    layer = nn.Linear(dim, n)
    initialize(layer)
    return layer


class LabelScores(Head[HasLabel, str]):
    """One label per input, the one with the highest score."""

    def __init__(self, labels: Sequence[str]):
        super().__init__()
        self.labels = tuple(labels)

    def scores(self, encoded: Batches, places: Places) -> Tensor:
        """(B, K)."""
        raise NotImplementedError

    def loss(self, encoded: Batches, places: Places, examples: Sequence[HasLabel]) -> Tensor:
        return self.cross_entropy(self.scores(encoded, places), examples)

    def cross_entropy(self, scores: Tensor, examples: Sequence[HasLabel]) -> Tensor:
        gold = [self.labels.index(example.label or "") for example in examples]
        return F.cross_entropy(scores, torch.tensor(gold, device=scores.device))

    def predict(self, encoded: Batches, places: Places, examples: Sequence[HasLabel]) -> list[str]:
        best = self.scores(encoded, places).argmax(dim=-1)
        return [self.labels[i] for i in best.tolist()]


class LabelHead(LabelScores):
    """A linear layer on what is pooled."""

    def __init__(self, labels: Sequence[str], dims: Dims, dropout: float):
        super().__init__(labels)
        if not dims.pooled:
            raise ConfigError(
                "This BERT has no pooler, which a label is predicted from; give one that has "
                "(bert.pooler.dense in its weights), or use it frozen."
            )
        self.dropout, self.output = Dropout(dropout), _linear(dims.pooled, len(self.labels))

    def scores(self, encoded: Batches, places: Places) -> Tensor:
        pooled = nth_inputs(encoded, places, 0).pooled
        assert pooled is not None  # `dims` says so
        scores: Tensor = self.output(self.dropout(pooled))
        return scores


class TagHead(Head[Tagged, Tags]):
    """One tag per word, each by itself: no tag knows the one before."""

    def __init__(self, labels: Sequence[str], dims: Dims, dropout: float):
        super().__init__()
        self.labels = tuple(labels)
        self.ids = {label: i for i, label in enumerate(self.labels)}
        self.dropout, self.output = Dropout(dropout), _linear(dims.vectors, len(self.labels))

    def scores(self, sentences: Encoded) -> Tensor:
        """Of the words of all sentences, one after another."""
        scores: Tensor = self.output(self.dropout(sentences.vectors[sentences.mask]))
        return scores  # (words, K)

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Tagged]) -> Tensor:
        scores = self.scores(nth_inputs(encoded, places, 0))
        gold = [self.ids[tag] for example in examples for tag in example.tags]
        return F.cross_entropy(scores, torch.tensor(gold, device=scores.device))

    def predict(self, encoded: Batches, places: Places, examples: Sequence[Tagged]) -> list[Tags]:
        best = iter(self.scores(nth_inputs(encoded, places, 0)).argmax(dim=-1).tolist())
        return [tuple(self.labels[next(best)] for _ in example.words) for example in examples]


class SpanHead(Head[Question, Answer]):
    """Each word of the paragraph as the first and as the last of the answer; no dropout."""

    def __init__(self, dims: Dims, max_answer_words: int):
        super().__init__()
        self.max_answer_words = max_answer_words
        self.output = _linear(dims.vectors, 2)

    def scores(self, pairs: Encoded, examples: Sequence[Question]) -> tuple[Tensor, Tensor]:
        """Log-chances (B, T) of first and last word. The question's own words, which stand before
        the paragraph's, have none."""
        asked = torch.tensor([len(question.words) for question in examples])  # (B,)
        after = torch.arange(pairs.mask.shape[1]) >= asked.unsqueeze(1)  # (B, T)
        outside = ~(after.to(pairs.mask.device) & pairs.mask)
        scores = self.output(pairs.vectors)  # (B, T, 2)
        lowest = torch.finfo(scores.dtype).min
        first, last = scores.masked_fill(outside.unsqueeze(-1), lowest).log_softmax(dim=1).unbind(2)
        return first, last

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Question]) -> Tensor:
        """The mean of that of the first word and that of the last."""
        first, last = self.scores(nth_inputs(encoded, places, 0), examples)
        spans = [[len(q.words) + word for word in q.spans[0]] for q in examples]
        starts, ends = torch.tensor(spans, device=first.device).unbind(1)  # (B,) each
        return (F.nll_loss(first, starts) + F.nll_loss(last, ends)) / 2

    def predict(
        self, encoded: Batches, places: Places, examples: Sequence[Question]
    ) -> list[Answer]:
        first, last = self.scores(nth_inputs(encoded, places, 0), examples)
        spans, chances = best_spans(first, last, self.max_answer_words)
        found = zip(examples, spans.tolist(), chances.tolist(), strict=True)
        return [_answer(q, i - len(q.words), j - len(q.words), p) for q, (i, j), p in found]


def _answer(question: Question, first: int, last: int, chance: float) -> Answer:
    paragraph = question.paragraph
    return Answer(paragraph.cut((first, last)), paragraph.starts[first], chance)
