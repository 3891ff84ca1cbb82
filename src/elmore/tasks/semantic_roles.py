"""Who did what to whom: the arguments of each predicate of a sentence, as BIO tags, in the way of
He et al. 2017. Each proposition is read by alternating highway LSTM layers that know where its
predicate is; the sentence's vectors are computed once for all its propositions. A small tagger
learns which words are predicates, for text where nobody has marked them.
"""

# B sentences, P propositions of them all, T words in the longest, D vector dim, H hidden units,
# K labels
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import InputError
from elmore.nn.crf import barrier_of, best_paths
from elmore.nn.highway_lstm import AlternatingLSTM, Packing
from elmore.nn.rnn import SentenceDropout
from elmore.tasks.encoded import Batches, Dims, Encoded, Places, nth_inputs
from elmore.tasks.propositions import PREDICATE, Proposition, RoleSentence, arguments_of
from elmore.tasks.readers.lines import read_plain_sentences
from elmore.tasks.readers.role_lines import RoleLayout, read_roles
from elmore.tasks.scorers.counts import Counts
from elmore.tasks.scorers.roles import Sentence, role_counts, subset
from elmore.tasks.scorers.score import nothing_found
from elmore.tasks.spans import allowed_pairs, span_labels, spans_of, tags_of
from elmore.tasks.task import Corpus, Head, Labels, Score, Words

_MOST_ROWS, _MOST_WORDS = 256, 16_384  # propositions predicted together, and words in them all


@dataclass(frozen=True, slots=True)
class FoundRoles:
    """The propositions of the predicates that were given, or else of those found."""

    propositions: tuple[Proposition, ...]
    predicates: tuple[int, ...]
    """The words that the tagger takes for predicates, also where they were given."""


class SemanticRoles(Frozen):
    """PropBank's roles. The defaults are a quarter of the published size, for a CPU."""

    share_inputs: ClassVar = True

    kind: Literal["srl"] = "srl"
    layout: RoleLayout = "auto"
    predicate: int | None = Field(default=None, ge=1, le=1000)
    """CoNLL-2005: the column of the predicates' lemmas, from 0; null: it is found."""
    hidden: int = Field(default=150, ge=1, le=65_536)
    n_layers: int = Field(default=4, ge=1, le=100)
    mark_dim: int = Field(default=100, ge=1, le=65_536)
    """Of the vector that says whether a word is the predicate."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Of the words' vectors and of every layer's states."""
    finder_hidden: int = Field(default=100, ge=1, le=65_536)
    finder_layers: int = Field(default=2, ge=1, le=100)

    def read(self, path: Path, *, training: bool = False) -> Corpus[RoleSentence]:
        corpus = read_roles(path, self.layout, self.predicate)
        if training and not any(sentence.propositions for sentence in corpus.examples):
            raise InputError(f"{path}: no sentence has a predicate; expected some to learn from.")
        return corpus

    def read_plain(self, path: Path) -> Corpus[RoleSentence]:
        """One sentence per line."""
        return read_plain_sentences(path, RoleSentence)

    def inputs(self, example: RoleSentence) -> Sequence[Words]:
        return (example.words,)

    def start(self, examples: Sequence[RoleSentence]) -> Labels:
        pieces = (p.pieces for example in examples for p in example.propositions or ())
        kinds = {piece.kind for found in pieces for piece in found}
        return Labels(labels=tuple(span_labels(sorted(kinds), "bio")))

    def head(self, state: Labels, dims: Dims) -> "RolesHead":
        return RolesHead(self, state.labels, dims)

    def score(self, examples: Sequence[RoleSentence], predictions: Sequence[FoundRoles]) -> Score:
        """As srl-eval.pl counts arguments, the predicates given; verbs and other predicates also
        apart. `predicates f1` is that of the tagger that finds them."""
        gold = [example.propositions or () for example in examples]
        found = [prediction.propositions for prediction in predictions]
        overall = role_counts(gold, found).counts.overall
        figures = {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}
        for name, verbs in (("verbs f1", True), ("others f1", False)):
            wanted = subset(gold, verbs=verbs)
            if any(wanted):
                counts = role_counts(wanted, subset(found, verbs=verbs)).counts
                figures[name] = counts.overall.f1
        places = [prediction.predicates for prediction in predictions]
        figures["predicates f1"] = _found(gold, places).f1
        return Score(figures, nothing_found(overall.expected, overall.found))

    def shown(self, example: RoleSentence, prediction: FoundRoles) -> dict[str, Any]:
        return {
            "words": list(example.words),
            "propositions": [_shown(p, example.words) for p in prediction.propositions],
        }


def _found(gold: Sequence[Sentence], places: Sequence[tuple[int, ...]]) -> Counts:
    """Predicates found by their places."""
    total = Counts()
    for wanted, had in zip(gold, places, strict=True):
        want, have = {proposition.predicate for proposition in wanted}, set(had)
        total += Counts(len(want & have), len(have - want), len(want - have))
    return total


def _shown(found: Proposition, words: Words) -> dict[str, Any]:
    arguments = [
        {
            "role": argument.role,
            "words": [word for start, end in argument.pieces for word in words[start:end]],
            "spans": [list(piece) for piece in argument.pieces],
        }
        for argument in arguments_of(found.pieces)
        if argument.role != PREDICATE
    ]
    return {
        "predicate": words[found.predicate],
        "index": found.predicate,
        "arguments": arguments,
        "text": in_brackets(found, words),
        "tags": tags_of(found.pieces, len(words), "bio"),
    }


def in_brackets(found: Proposition, words: Words) -> str:
    """`[ARG0 Anna] [V gave] [ARG2 Bob] [ARG1 a book] .`"""
    parts: list[str] = []
    done = 0
    for start, end, role in found.pieces:
        parts += [*words[done:start], f"[{role} {' '.join(words[start:end])}]"]
        done = end
    return " ".join([*parts, *words[done:]])


class RolesHead(Head[RoleSentence, FoundRoles]):
    """One layer stack over each proposition, and a small one over each sentence that finds the
    predicates. Both are trained together: their losses are added."""

    barrier: Tensor  # (K + 1, K + 1)

    def __init__(self, config: SemanticRoles, labels: Sequence[str], dims: Dims):
        super().__init__()
        self.labels = tuple(labels)
        self.ids = {label: i for i, label in enumerate(labels)}
        self.dim = dims.vectors
        self.dropout = SentenceDropout(config.dropout)
        self.mark = nn.Embedding(2, config.mark_dim)
        dim, hidden = dims.vectors, config.hidden
        self.layers = AlternatingLSTM(
            dim + config.mark_dim, hidden, config.n_layers, config.dropout
        )
        self.output = nn.Linear(hidden + dims.late, len(labels))
        self.finder = AlternatingLSTM(
            dim, config.finder_hidden, config.finder_layers, config.dropout
        )
        self.is_predicate = nn.Linear(config.finder_hidden + dims.late, 1)
        barrier = barrier_of(torch.tensor(allowed_pairs(labels, "bio")))
        self.register_buffer("barrier", barrier, persistent=False)

    def loss(self, encoded: Batches, places: Places, examples: Sequence[RoleSentence]) -> Tensor:
        """Means over the words of all propositions, and of all sentences."""
        sentences = self._dropped(nth_inputs(encoded, places, 0))
        marked = torch.zeros(sentences.mask.shape, device=sentences.mask.device)
        for row, example in enumerate(examples):
            for proposition in example.propositions or ():
                marked[row, proposition.predicate] = 1.0
        finding = F.binary_cross_entropy_with_logits(
            self.predicate_scores(sentences)[sentences.mask], marked[sentences.mask]
        )
        rows, predicates = _places([example.propositions or () for example in examples])
        if not rows:
            return finding
        mask = sentences.mask[rows]  # (P, T)
        tags = [
            torch.tensor([self.ids[tag] for tag in tags_of(p.pieces, len(e.words), "bio")])
            for e in examples
            for p in e.propositions or ()
        ]
        gold = nn.utils.rnn.pad_sequence(tags, batch_first=True).to(mask.device)  # (P, ≤ T)
        mask = mask[:, : gold.shape[1]]
        scores = self.scores(sentences, rows, predicates)[:, : gold.shape[1]]
        return finding + F.cross_entropy(scores[mask], gold[mask])

    def predict(
        self, encoded: Batches, places: Places, examples: Sequence[RoleSentence]
    ) -> list[FoundRoles]:
        sentences = nth_inputs(encoded, places, 0)
        likely = (self.predicate_scores(sentences) > 0) & sentences.mask  # (B, T)
        found = [tuple(row.nonzero().flatten().tolist()) for row in likely]
        asked = [_asked(*pair) for pair in zip(examples, found, strict=True)]
        rows, predicates = _places(asked)
        paths = self._paths(sentences, rows, predicates)
        decoded = (tuple(spans_of([self.labels[i] for i in path])) for path in paths)
        return [
            FoundRoles(tuple(replace(p, pieces=next(decoded)) for p in own), places)
            for own, places in zip(asked, found, strict=True)
        ]

    def _paths(
        self, sentences: Encoded, rows: Sequence[int], predicates: Sequence[int]
    ) -> list[list[int]]:
        """The tags of each proposition, some at a time: a long sentence may have hundreds of
        propositions, and memory stays bounded."""
        paths: list[list[int]] = []
        most = max(1, min(_MOST_ROWS, _MOST_WORDS // max(1, sentences.mask.shape[1])))
        for start in range(0, len(rows), most):
            wanted = rows[start : start + most]
            row_of = {row: n for n, row in enumerate(dict.fromkeys(wanted))}
            own, places = sentences.rows(list(row_of)), [row_of[row] for row in wanted]
            scores = self.scores(own, places, predicates[start : start + most])
            paths += self.decode(scores, own.mask[places])
        return paths

    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """The most likely tags of each row that are BIO: `I-X` only after `B-X` or `I-X`. If the
        best tag of every word by itself is allowed, these are the answer; else Viterbi's are."""
        best = scores.argmax(dim=-1)  # (P, T)
        start = best.new_full((len(best), 1), len(self.labels))
        before = torch.cat([start, best[:, :-1]], dim=1)
        broken = ((self.barrier[before, best] < 0) & mask).any(dim=1)  # (P,)
        lengths = mask.sum(dim=1).tolist()
        paths = [row[:n] for row, n in zip(best.tolist(), lengths, strict=True)]
        again = broken.nonzero().flatten().tolist()
        if again:
            chances = scores[again].log_softmax(dim=-1)
            found = best_paths(chances, self.barrier, mask[again])
            for row, path in zip(again, found, strict=True):
                paths[row] = path
        return paths

    def _dropped(self, sentences: Encoded) -> Encoded:
        vectors = self.dropout(sentences.vectors)
        return Encoded(vectors, sentences.mask, sentences.late, sentences.pooled)

    def predicate_scores(self, sentences: Encoded) -> Tensor:
        """Above 0 where a word is more likely a predicate than not: (B, T)."""
        states = self.finder(sentences.vectors, sentences.mask)
        scores: Tensor = self.is_predicate(sentences.with_late(states))
        return scores.squeeze(-1)

    def scores(self, sentences: Encoded, rows: Sequence[int], predicates: Sequence[int]) -> Tensor:
        """Of each proposition's sentence and predicate, (P, T, K). What the first layer takes from
        the words is the same for all propositions of a sentence: it is computed once."""
        first = self.layers.first
        of_words, of_mark = first.weight.split([self.dim, self.mark.embedding_dim], dim=1)
        marks = F.linear(self.mark.weight, of_mark)  # (2, 6H): another word, the predicate
        words = F.linear(sentences.vectors, of_words, first.bias + marks[0])  # (B, T, 6H)
        row_of, place_of = (torch.tensor(x, device=words.device) for x in (rows, predicates))
        packing = Packing(sentences.mask[row_of])
        there = row_of[packing.rows] * words.shape[1] + packing.steps  # (N,)
        projected = words.flatten(0, 1).index_select(0, there)  # (N, 6H)
        marked = (packing.steps == place_of[packing.rows]).nonzero().flatten()  # (P,)
        step = (marks[1] - marks[0]).expand(len(rows), -1)
        projected = projected.index_add(0, marked, step)
        states = packing.unpack(self.layers.above(projected, packing))  # (P, T, H)
        late = None if sentences.late is None else sentences.late[row_of]
        scores: Tensor = self.output(states if late is None else torch.cat([states, late], -1))
        return scores


def _asked(example: RoleSentence, found: tuple[int, ...]) -> list[Proposition]:
    """Propositions without arguments, of the predicates that are given, or else found."""
    if example.propositions is not None:
        return [replace(proposition, pieces=()) for proposition in example.propositions]
    return [Proposition(place, example.words[place].lower(), ()) for place in found]


def _places(propositions: Sequence[Sequence[Proposition]]) -> tuple[list[int], list[int]]:
    """The row and the predicate of each proposition."""
    pairs = [(row, p.predicate) for row, own in enumerate(propositions) for p in own]
    return [row for row, _ in pairs], [place for _, place in pairs]
