"""The model of coreference: an RNN over each sentence, scores of all spans, the best of them kept,
and for each of these its best antecedent or none (Lee et al. 2017, 2018). A span that is clearly a
mention and has no link is a cluster of one.
"""

# n words, T words in the longest sentence, D vector dim, H state dim, K spans kept
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import ConfigDict, Field
from torch import Tensor

from elmore.config import Frozen
from elmore.nn.antecedents import N_MATCHES, Antecedents, antecedent_loss, with_none
from elmore.nn.rnn import BiRNN, SentenceDropout
from elmore.nn.span_ranking import Candidates, Spans, TextStates, keep_best
from elmore.tasks.coref_clusters import linked
from elmore.tasks.encoded import Batches, Dims, Encoded, Place, Places
from elmore.tasks.readers.coref import Clusters, Document
from elmore.tasks.task import Head

_TOGETHER = 32  # sentences of similar length that the RNN reads at once


class SpanRanking(Frozen):
    """Settings of the model."""

    model_config = ConfigDict(allow_inf_nan=False)

    hidden: int = Field(default=128, ge=1, le=65_536)
    """Of each direction of the RNN."""
    dropout: float = Field(default=0.4, ge=0, lt=1)
    """Of the RNN's input and output."""
    max_width: int = Field(default=15, ge=1, le=1_000)
    """Words of the widest span."""
    ratio: float = Field(default=0.25, gt=0, le=1)
    """Spans kept per word."""
    antecedents: int = Field(default=40, ge=1, le=10_000)
    """Scored by the network, of each span; chosen by the coarse score."""
    rounds: int = Field(default=1, ge=1, le=10)
    """2: second order, spans are refined once by what they may refer to."""
    score_hidden: int = Field(default=128, ge=1, le=65_536)
    score_dropout: float = Field(default=0.2, ge=0, lt=1)
    features: int = Field(default=20, ge=1, le=4_096)
    """Dim of the vectors for widths, distances and equal words."""
    pair_dim: int | None = Field(default=96, ge=1, le=65_536)
    """Spans are reduced to this before they are multiplied with each other; null: not at all."""
    mention_weight: float = Field(default=1.0, ge=0)
    """Of the loss of mention scores; 0 as published, where a cluster of one is nothing."""
    threshold: float | None = 0.0
    """A span with a higher mention score and no link is a cluster of one; null: never."""
    chunk: int = Field(default=16_384, ge=1)
    """Pairs of spans that are scored at once."""


class CorefHead(Head[Document, Clusters]):
    """Reads a document at a time, so that its clusters do not depend on the others in a batch."""

    def __init__(self, config: SpanRanking, dims: Dims):
        super().__init__()
        self.config = config
        self.dropout = SentenceDropout(config.dropout)
        self.read = BiRNN(dims.vectors, config.hidden)
        sizes = config.features, config.score_hidden, config.score_dropout
        states = self.read.dim + dims.late
        self.spans = Spans(dims.vectors, states, config.max_width, *sizes)
        self.antecedents = Antecedents(
            self.spans.dim,
            *sizes,
            pair_dim=config.pair_dim,
            most=config.antecedents,
            rounds=config.rounds,
            chunk=config.chunk,
        )

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Document]) -> Tensor:
        losses = [
            self._document_loss(self._text(encoded, own), document)
            for own, document in zip(places, examples, strict=True)
        ]
        return torch.stack(losses).mean()

    def predict(
        self, encoded: Batches, places: Places, examples: Sequence[Document]
    ) -> list[Clusters]:
        return [
            self._clusters(self._text(encoded, own), document)
            for own, document in zip(places, examples, strict=True)
        ]

    def _text(self, encoded: Batches, own: Sequence[Place]) -> TextStates:
        """Sentences of similar length are read together, whatever else the batch has."""
        (batch,) = {place.batch for place in own}
        sentences = encoded[batch].rows([place.row for place in own])
        lengths: list[int] = sentences.lengths.tolist()
        order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
        inputs, states = [], []
        for at in range(0, len(order), _TOGETHER):
            rows = order[at : at + _TOGETHER]
            longest = lengths[rows[-1]]
            group = _trimmed(sentences.rows(rows), longest)
            x = self.dropout(group.vectors)
            inputs.append(x[group.mask])
            states.append(group.with_late(self.dropout(self.read(x, group.mask)))[group.mask])
        back = _text_order(order, lengths).to(sentences.mask.device)
        return TextStates(torch.cat(inputs)[back], torch.cat(states)[back], lengths)

    def _document_loss(self, text: TextStates, document: Document) -> Tensor:
        cluster_of = {m: i for i, cluster in enumerate(document.clusters) for m in cluster}
        found = self.spans.candidates(text)
        first, last = found.first.tolist(), found.last.tolist()
        spans = list(zip(first, last, strict=True))
        is_mention = torch.tensor(
            [span in cluster_of for span in spans], device=found.scores.device
        )
        kept, others, scores = self._link(text, found, document)
        gold = torch.tensor([cluster_of.get(spans[i], -1) for i in kept], device=scores.device)
        mentions = F.binary_cross_entropy_with_logits(
            found.scores, is_mention.to(found.scores.dtype), reduction="sum"
        )
        loss = antecedent_loss(scores, others, gold) + self.config.mention_weight * mentions
        return loss / len(kept)

    def _clusters(self, text: TextStates, document: Document) -> Clusters:
        found = self.spans.candidates(text)
        kept, others, scores = self._link(text, found, document)
        mention = found.scores[kept].tolist()
        spans = list(zip(found.first[kept].tolist(), found.last[kept].tolist(), strict=True))
        best = with_none(scores).argmax(dim=1).tolist()  # 0 is none
        named = others.tolist()
        chosen = [named[i][j - 1] if j else None for i, j in enumerate(best)]
        return linked(spans, chosen, mention, self.config.threshold)

    def _link(
        self, text: TextStates, found: Candidates, document: Document
    ) -> tuple[list[int], Tensor, Tensor]:
        ends, scores = torch.stack([found.first, found.last]), found.scores.detach()
        most = max(1, int(self.config.ratio * len(text.states)))
        kept = keep_best(ends.cpu().numpy(), scores.cpu().numpy(), most)
        first, last = found.first[kept], found.last[kept]
        vectors = self.spans(text, first, last)
        match = matches(document.words, first.tolist(), last.tolist()).to(vectors.device)
        others, scores = self.antecedents(vectors, found.scores[kept], match)
        return kept, others, scores


def _trimmed(encoded: Encoded, longest: int) -> Encoded:
    late = None if encoded.late is None else encoded.late[:, :longest]
    return Encoded(encoded.vectors[:, :longest], encoded.mask[:, :longest], late)


def _text_order(order: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Where each word of the text is, if its sentences are in this order."""
    at, begins = 0, [0] * len(lengths)
    for sentence in order:
        begins[sentence] = at
        at += lengths[sentence]
    places = [torch.arange(b, b + n) for b, n in zip(begins, lengths, strict=True)]
    return torch.cat(places)  # (n,)


def matches(words: Sequence[str], first: Sequence[int], last: Sequence[int]) -> Tensor:
    """Whether two spans have the same words, or the same last word, in lower case: (K, K)."""
    lowered = [word.lower() for word in words]
    texts = [tuple(lowered[a : b + 1]) for a, b in zip(first, last, strict=True)]
    found = torch.zeros(len(texts), len(texts), dtype=torch.long)
    for keys in ([text[-1:] for text in texts], texts):
        number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        ids = torch.tensor([number[key] for key in keys])
        found += ids.unsqueeze(1) == ids
    assert N_MATCHES == 3  # nothing, the last word, all words
    return found
