"""spaCy: a pipeline component that gives every token its vector in context.

nlp.add_pipe("elmore", config={"model": "elmo-original"})

`doc.tensor` has one row per token and survives `to_bytes` and other processes. Where the vocabulary
has no vectors of its own, `token.vector`, `span.vector` and `doc.vector` come from it.
"""

# n tokens, K layers taken, D vector dim
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from elmore.checkpoint.sources import save
from elmore.embedder import Embedder
from elmore.embedding import Vectors, layer_choice
from elmore.errors import InputError

_MODEL = "model"


class ElmoreComponent:
    """Embeds each sentence of a document, or the whole document if it has no sentences."""

    def __init__(self, model: str, layers: str, device: str):
        self.model, self.layers, self.device = model, layers, device
        self._load(model)

    def _load(self, model: str) -> None:
        self.embedder = Embedder.load(model, device=self.device)
        self._choice = layer_choice(self.layers, self.embedder.n_layers, lens=self.embedder.lens)

    def __call__(self, doc: Doc) -> Doc:
        (done,) = self.pipe([doc])
        return done

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            parts = [part for doc in batch for part in _sentences(doc)]
            words = [[token.text for token in part] for part in parts]
            found = iter(self.embedder.embed(words))
            for doc in batch:
                self._fill(doc, found)
                yield doc

    def _fill(self, doc: Doc, found: Iterator[Any]) -> None:
        n_columns = int(np.prod(self._choice.shape(self.embedder.dim)))
        tensor = np.zeros((len(doc), n_columns), np.float32)  # spaces stay zero
        for part in _sentences(doc):
            embedding = next(found)
            kept = self._choice.select(embedding.layers, embedding.lens)  # (K, n, D)
            rows = [token.i for token in part]
            tensor[rows] = kept.transpose(1, 0, 2).reshape(len(rows), -1)
        doc.tensor = tensor  # (n, K·D)
        if doc.vocab.vectors.size:  # spaCy would take those
            set_hooks(doc)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """The model too, so that the pipeline can be moved."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / _MODEL
        if not target.exists():
            save(self.embedder.checkpoint, target)
        elif Embedder.load(target, device="cpu").fingerprint != self.embedder.fingerprint:
            raise InputError(f"{target} has another model; remove it or choose another folder.")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoreComponent":
        self._load(str(Path(path) / _MODEL))
        return self


def set_hooks(doc: Doc) -> None:
    """Vectors of tokens, spans and the document from `doc.tensor`, also where the vocabulary has
    vectors. A document that comes from another process or from bytes has lost them: set them
    again."""
    doc.user_token_hooks["vector"] = _token_vector
    doc.user_span_hooks["vector"] = _span_vector
    doc.user_hooks["vector"] = _doc_vector
    for hooks in (doc.user_token_hooks, doc.user_span_hooks, doc.user_hooks):
        hooks["has_vector"] = _has_vector


def _token_vector(token: Token) -> Vectors:
    vector: Vectors = token.doc.tensor[token.i]
    return vector


def _span_vector(span: Span) -> Vectors:
    return np.asarray(span.doc.tensor[span.start : span.end].mean(axis=0), np.float32)


def _doc_vector(doc: Doc) -> Vectors:
    mean = doc.tensor.mean(axis=0) if len(doc) else np.zeros(doc.tensor.shape[1])
    return np.asarray(mean, np.float32)


def _has_vector(_: Any) -> bool:
    return True


def _sentences(doc: Doc) -> list[list[Token]]:
    """Tokens that are words, sentence by sentence; none are empty."""
    parts = doc.sents if doc.has_annotation("SENT_START") else [doc]
    words = ([token for token in part if not token.is_space] for part in parts)
    return [part for part in words if part]


def _component(nlp: Language, name: str, model: str, layers: str, device: str) -> ElmoreComponent:
    return ElmoreComponent(model, layers, device)


_register: Callable[..., Any] = Language.factory(
    "elmore",
    default_config={"model": "small-en", "layers": "average", "device": "auto"},
    assigns=["doc.tensor"],
)
_register(_component)
