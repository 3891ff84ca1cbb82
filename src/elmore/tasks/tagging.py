"""One label per word. Spans (entities, chunks) are found by a CRF that knows which tags may
follow which, and scored as conlleval does; plain labels (parts of speech) by a softmax.
"""

# B sentences, T words in the longest, K labels
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import InputError
from elmore.nn.crf import CRF
from elmore.nn.rnn import BiRNN, SentenceDropout
from elmore.tasks.encoded import Batches, Dims, Encoded, Places, nth_inputs
from elmore.tasks.readers.columns import ConlluColumn, TaggedSentence, read_columns, read_conllu
from elmore.tasks.readers.lines import read_plain_sentences
from elmore.tasks.scorers.accuracy import tag_accuracy
from elmore.tasks.scorers.conlleval import span_score
from elmore.tasks.spans import Encoding, allowed_pairs, is_span_tag, span_labels, spans_of, tags_of
from elmore.tasks.task import Corpus, Head, Labels, Score, Words

Tags = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence and its tags, which are empty where they are to be predicted."""

    words: Words
    tags: Tags = ()


class ColumnsLayout(Frozen):
    """CoNLL's columns, split by white space."""

    kind: Literal["columns"] = "columns"
    word: int = Field(default=0, ge=-1000, le=1000)
    tag: int = Field(default=-1, ge=-1000, le=1000)
    """Columns count from 0, or from the end if negative."""

    def read(self, path: Path) -> Iterator[TaggedSentence]:
        return read_columns(path, self.word, self.tag)


class ConlluLayout(Frozen):
    """Universal Dependencies' ten columns."""

    kind: Literal["conllu"] = "conllu"
    tag: ConlluColumn = "upos"

    def read(self, path: Path) -> Iterator[TaggedSentence]:
        return read_conllu(path, self.tag)


class Tagging(Frozen):
    """Named entities, chunks, parts of speech."""

    share_inputs: ClassVar = False

    kind: Literal["tagging"] = "tagging"
    layout: ColumnsLayout | ConlluLayout = Field(default=ColumnsLayout(), discriminator="kind")
    spans: bool = True
    """Whether tags stand for spans; else each tag is a label by itself."""
    encoding: Encoding = "bioes"
    """How spans are written as tags for training, whatever the file has."""
    hidden: int = Field(default=200, ge=1, le=65_536)
    n_layers: int = Field(default=1, ge=1, le=100)
    dropout: float = Field(default=0.5, ge=0, lt=1)
    late_after: int | None = Field(default=None, ge=1)
    """Late vectors are joined to the output of this layer (TagLM: 1 of 2); null: of the last."""

    @model_validator(mode="after")
    def _late_is_somewhere(self) -> Self:
        if self.late_after is not None and self.late_after > self.n_layers:
            raise ValueError(
                f"late_after is {self.late_after}, and there are {self.n_layers} layers"
            )
        return self

    def read(self, path: Path, *, training: bool = False) -> Corpus[Tagged]:
        return Corpus([self._example(sentence, path) for sentence in self.layout.read(path)])

    def _example(self, sentence: TaggedSentence, path: Path) -> Tagged:
        if not self.spans:
            return Tagged(sentence.words, sentence.tags)
        for i, tag in enumerate(sentence.tags):
            if not is_span_tag(tag):
                raise InputError(
                    f"{path}, line {sentence.line + i}: the tag {tag!r}; expected O, or B-, I-, "
                    "E- or S- and a kind. Is it the right column (task.layout.tag)? For tags that "
                    "are no spans set task.spans=false."
                )
        spans = spans_of(sentence.tags)
        return Tagged(sentence.words, tuple(tags_of(spans, len(sentence.words), self.encoding)))

    def read_plain(self, path: Path) -> Corpus[Tagged]:
        """One sentence per line."""
        return read_plain_sentences(path, Tagged)

    def inputs(self, example: Tagged) -> Sequence[Words]:
        return (example.words,)

    def start(self, examples: Sequence[Tagged]) -> Labels:
        if not self.spans:
            found = {tag for example in examples for tag in example.tags}
            return Labels(labels=tuple(sorted(found)))
        kinds = {span.kind for example in examples for span in spans_of(example.tags)}
        return Labels(labels=tuple(span_labels(sorted(kinds), self.encoding)))

    def head(self, state: Labels, dims: Dims) -> "TaggingHead":
        return TaggingHead(self, state.labels, dims)

    def score(self, examples: Sequence[Tagged], predictions: Sequence[Tags]) -> Score:
        score = span_score if self.spans else tag_accuracy
        return score([example.tags for example in examples], predictions)

    def shown(self, example: Tagged, prediction: Tags) -> dict[str, Any]:
        found: dict[str, Any] = {"words": list(example.words), "tags": list(prediction)}
        if self.spans:
            found["spans"] = [
                {"start": start, "end": end, "kind": kind, "words": example.words[start:end]}
                for start, end, kind in spans_of(prediction)
            ]
        return found


class TaggingHead(Head[Tagged, Tags]):
    """biLSTM layers, then a CRF over spans' tags or a softmax over plain ones."""

    def __init__(self, config: Tagging, labels: Sequence[str], dims: Dims):
        super().__init__()
        self.labels = tuple(labels)
        self.ids = {label: i for i, label in enumerate(labels)}
        n_layers, width = config.n_layers, dims.vectors
        self.late_after = config.late_after or n_layers
        self.layers = nn.ModuleList()
        for layer in range(1, n_layers + 1):
            self.layers.append(BiRNN(width, config.hidden, config.dropout))
            width = 2 * config.hidden + (dims.late if layer == self.late_after else 0)
        self.dropout = SentenceDropout(config.dropout)
        self.output = nn.Linear(width, len(labels))
        self.crf = (
            CRF(torch.tensor(allowed_pairs(labels, config.encoding))) if config.spans else None
        )

    def scores(self, sentences: Encoded) -> Tensor:
        x = sentences.vectors  # (B, T, D)
        for layer, rnn in enumerate(self.layers, start=1):
            x = rnn(x, sentences.mask)
            if layer == self.late_after:
                x = sentences.with_late(x)
        scores: Tensor = self.output(self.dropout(x))  # (B, T, K)
        return scores

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Tagged]) -> Tensor:
        sentences = nth_inputs(encoded, places, 0)
        scores, mask = self.scores(sentences), sentences.mask
        ids = [torch.tensor([self.ids[tag] for tag in example.tags]) for example in examples]
        labels = nn.utils.rnn.pad_sequence(ids, batch_first=True).to(mask.device)  # (B, T)
        if self.crf is None:
            return F.cross_entropy(scores[mask], labels[mask])
        likelihood: Tensor = self.crf(scores, labels, mask)
        return -likelihood.sum() / mask.sum()

    def predict(self, encoded: Batches, places: Places, examples: Sequence[Tagged]) -> list[Tags]:
        sentences = nth_inputs(encoded, places, 0)
        scores = self.scores(sentences)
        if self.crf is None:
            best = scores.argmax(dim=-1).tolist()
            rows = [row[:n] for row, n in zip(best, sentences.lengths.tolist(), strict=True)]
        else:
            rows = self.crf.decode(scores, sentences.mask)
        return [tuple(self.labels[i] for i in row) for row in rows]
