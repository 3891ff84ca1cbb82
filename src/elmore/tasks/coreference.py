"""Coreference: which spans of a document mention something, and which of them mention the same.
Documents of any length: long ones are read in windows that overlap, and their clusters are joined.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from elmore.errors import InputError
from elmore.tasks.coref_clusters import joined, short_sentences, window_bounds, windows
from elmore.tasks.coref_head import CorefHead, SpanRanking
from elmore.tasks.encoded import Dims
from elmore.tasks.readers.coref import Clusters, Document, read_any_document, read_documents
from elmore.tasks.scorers.coref import CorefScore
from elmore.tasks.task import Corpus, Labels, Score, Words

FIGURES = {"CoNLL": "conll", "MUC": "muc", "B3": "bcub", "CEAFe": "ceafe", "LEA": "lea"}


class Coreference(SpanRanking):
    """Documents and clusters of mentions."""

    share_inputs: ClassVar = True

    kind: Literal["coreference"] = "coreference"
    train_words: int = Field(default=800, ge=1, le=100_000)
    """Training documents are cut into parts of at most so many words, between sentences."""
    window: int = Field(default=3_000, ge=2, le=100_000)
    """Longer documents are read in windows of so many words."""
    overlap: int = Field(default=1_000, ge=0, le=100_000)
    """Words that a window has in common with the one before, or less where sentences are long."""

    @model_validator(mode="after")
    def _windows_go_on(self) -> Self:
        if self.overlap >= self.window:
            raise ValueError(f"overlap is {self.overlap}; expected less than window={self.window}")
        return self

    def read(self, path: Path, *, training: bool = False) -> Corpus[Document]:
        corpus = self._corpus(read_documents(path), path)
        return self._to_train_on(corpus, path) if training else self._with_windows(corpus)

    def read_plain(self, path: Path) -> Corpus[Document]:
        """Columns, JSON lines, or raw text: then the file is one document."""
        return self._with_windows(self._corpus(read_any_document(path), path))

    def _corpus(self, documents: Sequence[Document], path: Path) -> Corpus[Document]:
        with_words = [document for document in documents if document.n_words]
        if not with_words:
            raise InputError(f"{path}: no document with words found.")
        kept = [short_sentences(document, self.window) for document in with_words]
        cut = sum(old is not new for old, new in zip(with_words, kept, strict=True))
        counts = {
            "documents without words left out": len(documents) - len(kept),
            f"documents with sentences of over {self.window:,} words, which are cut": cut,
        }
        return Corpus(kept, _notes(counts))

    def _with_windows(self, corpus: Corpus[Document]) -> Corpus[Document]:
        text = (
            f"documents of more than {self.window:,} words, read in windows with {self.overlap:,} "
            "words in common, their clusters joined by common mentions"
        )
        long = sum(document.n_words > self.window for document in corpus.examples)
        return Corpus(corpus.examples, (*corpus.notes, *_notes({text: long})))

    def _to_train_on(self, corpus: Corpus[Document], path: Path) -> Corpus[Document]:
        parts = [p for whole in corpus.examples for p in windows(whole, self.train_words, 0)]
        kept = [part for part in parts if part.clusters]
        if not kept:
            raise InputError(f"{path}: no document has a mention; expected clusters to learn from.")
        n_cut = sum(whole.n_words > self.train_words for whole in corpus.examples)
        counts = {
            f"documents cut into parts of at most {self.train_words:,} words to train on": n_cut,
            "documents or parts without a mention, not trained on": len(parts) - len(kept),
            f"mentions of more than {self.max_width} words, or across sentences, which are never "
            "found": sum(self._unreachable(document) for document in corpus.examples),
        }
        return Corpus(kept, (*corpus.notes, *_notes(counts)))

    def _unreachable(self, document: Document) -> int:
        ends = [
            end
            for end, sentence in zip(
                accumulate(map(len, document.sentences)), document.sentences, strict=True
            )
            for _ in sentence
        ]
        mentions = (mention for cluster in document.clusters for mention in cluster)
        return sum(b - a >= self.max_width or b >= ends[a] for a, b in mentions)

    def inputs(self, example: Document) -> Sequence[Words]:
        return example.sentences

    def parts(self, example: Document) -> Sequence[Document]:
        """What is read at once."""
        return windows(example, self.window, self.overlap)

    def whole(self, example: Document, predictions: Sequence[Clusters]) -> Clusters:
        """The clusters of all windows, joined where they share a mention."""
        begins = [0, *accumulate(map(len, example.sentences))]
        bounds = window_bounds(example, self.window, self.overlap)
        return joined(
            [(a + begins[first], b + begins[first]) for a, b in cluster]
            for (first, _), found in zip(bounds, predictions, strict=True)
            for cluster in found
        )

    def start(self, examples: Sequence[Document]) -> Labels:
        return Labels()

    def head(self, state: Labels, dims: Dims) -> CorefHead:
        return CorefHead(self, dims)

    def score(self, examples: Sequence[Document], predictions: Sequence[Clusters]) -> Score:
        score = CorefScore()
        for example, found in zip(examples, predictions, strict=True):
            score.add(example.clusters, found)
        figures, measures = score.figures(), {**FIGURES, "mentions": "mentions"}
        return Score({name: 100 * figures[measure].f1 for name, measure in measures.items()})

    def shown(self, example: Document, prediction: Clusters) -> dict[str, Any]:
        """In the form of the JSON lines that are read, and the mentions as text."""
        words = example.words
        texts = [[" ".join(words[a : b + 1]) for a, b in cluster] for cluster in prediction]
        return {
            "document": example.name,
            "sentences": [list(sentence) for sentence in example.sentences],
            "clusters": [[list(mention) for mention in cluster] for cluster in prediction],
            "mentions": texts,
        }


def _notes(counts: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{text}: {n:,}" for text, n in counts.items() if n)
