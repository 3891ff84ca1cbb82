"""One label per sentence: a biLSTM whose states are pooled by attention. Labels of phrases
(sentiment trees) train the same classifier: a phrase is pooled from the states of its words within
the sentence, so a whole tree costs hardly more than its sentence.
"""

# B sentences, T words in the longest, M phrases of a sentence, H hidden units, K labels
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.rnn import BiRNN
from elmore.tasks.encoded import Batches, Dims, Encoded, Places, nth_inputs
from elmore.tasks.readers.labeled_texts import read_labeled_texts
from elmore.tasks.readers.lines import read_plain_sentences
from elmore.tasks.readers.trees import Phrase, is_trees, read_trees
from elmore.tasks.scorers.accuracy import label_accuracy
from elmore.tasks.task import Corpus, Head, Labels, Score, Words


@dataclass(frozen=True, slots=True)
class Labelled:
    """A sentence, its label (None where it is to be predicted), and the labeled phrases in it."""

    words: Words
    label: str | None = None
    phrases: tuple[Phrase, ...] = ()


class Classification(Frozen):
    """Sentiment of sentences, from trees or from texts with one label each."""

    share_inputs: ClassVar = False

    kind: Literal["classification"] = "classification"
    phrases: bool = True
    """Learn from every labeled phrase of the training trees, else from whole sentences alone."""
    phrase_weight: float = Field(default=1.0, ge=0)
    """Of the phrases' mean loss beside that of the sentences."""
    hidden: int = Field(default=150, ge=1, le=65_536)
    dropout: float = Field(default=0.5, ge=0, lt=1)

    def read(self, path: Path, *, training: bool = False) -> Corpus[Labelled]:
        examples = []
        for tree in read_trees(path) if is_trees(path) else read_labeled_texts(path):
            *inner, root = tree.phrases
            phrases = tuple(inner) if training and self.phrases else ()
            examples.append(Labelled(tree.words, root.label, phrases))
        return Corpus(examples)

    def read_plain(self, path: Path) -> Corpus[Labelled]:
        """One sentence per line."""
        return read_plain_sentences(path, Labelled)

    def inputs(self, example: Labelled) -> Sequence[Words]:
        return (example.words,)

    def start(self, examples: Sequence[Labelled]) -> Labels:
        found = {example.label for example in examples if example.label is not None}
        phrases = {phrase.label for example in examples for phrase in example.phrases}
        return Labels(labels=tuple(sorted(found | phrases)))

    def head(self, state: Labels, dims: Dims) -> "ClassificationHead":
        return ClassificationHead(self, state.labels, dims)

    def score(self, examples: Sequence[Labelled], predictions: Sequence[str]) -> Score:
        return label_accuracy([example.label for example in examples], predictions)

    def shown(self, example: Labelled, prediction: str) -> dict[str, Any]:
        return {"words": list(example.words), "label": prediction}


class ClassificationHead(Head[Labelled, str]):
    """biLSTM, attention over a sentence or phrase, two layers to the labels."""

    def __init__(self, config: Classification, labels: Sequence[str], dims: Dims):
        super().__init__()
        self.labels, self.weight = tuple(labels), config.phrase_weight
        self.ids = {label: i for i, label in enumerate(labels)}
        self.rnn = BiRNN(dims.vectors, config.hidden, config.dropout)
        width = self.rnn.dim + dims.late
        self.attend = nn.Linear(width, 1)
        self.classify = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(3 * width, 2 * config.hidden),  # the pooled, the first and the last word
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(2 * config.hidden, len(labels)),
        )

    def states(self, sentences: Encoded) -> Tensor:
        return sentences.with_late(self.rnn(sentences.vectors, sentences.mask))  # (B, T, 2H + late)

    def scores(self, states: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        """Of phrases, words start … end - 1 each: starts and ends (B, M) -> (B, M, K)."""
        places = torch.arange(states.shape[1], device=states.device)  # (T,)
        inside = (places >= starts.unsqueeze(2)) & (places < ends.unsqueeze(2))  # (B, M, T)
        attention = self.attend(states).transpose(1, 2).expand(inside.shape)  # (B, M, T)
        weights = torch.softmax(attention.masked_fill(~inside, -1e4), dim=-1)
        pooled = weights @ states  # (B, M, 2H)
        first, last = _states_at(states, starts), _states_at(states, ends - 1)
        scores: Tensor = self.classify(torch.cat([pooled, first, last], dim=-1))
        return scores

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Labelled]) -> Tensor:
        sentences = nth_inputs(encoded, places, 0)
        # the sentence itself stands first
        phrases = [[Phrase(0, len(e.words), e.label or ""), *e.phrases] for e in examples]
        numbers = [
            torch.tensor([(start, end, self.ids[label]) for start, end, label in row])
            for row in phrases
        ]
        filled = nn.utils.rnn.pad_sequence(numbers, batch_first=True, padding_value=-1)
        starts, ends, gold = filled.to(sentences.mask.device).unbind(dim=2)  # (B, M) each
        scores = self.scores(self.states(sentences), starts.clamp(min=0), ends.clamp(min=1))
        whole = F.cross_entropy(scores[:, 0], gold[:, 0])
        if gold.shape[1] == 1:
            return whole
        inner = gold[:, 1:]
        known = F.cross_entropy(scores[:, 1:].flatten(0, 1), inner.flatten(), ignore_index=-1)
        return whole + self.weight * known

    def predict(self, encoded: Batches, places: Places, examples: Sequence[Labelled]) -> list[str]:
        sentences = nth_inputs(encoded, places, 0)
        ends = sentences.lengths.clamp(min=1).unsqueeze(1)  # (B, 1)
        scores = self.scores(self.states(sentences), torch.zeros_like(ends), ends)
        return [self.labels[i] for i in scores[:, 0].argmax(dim=-1).tolist()]


def _states_at(states: Tensor, places: Tensor) -> Tensor:
    """states (B, T, 2H), places (B, M) -> (B, M, 2H)."""
    return states.gather(1, places.unsqueeze(-1).expand(-1, -1, states.shape[2]))
