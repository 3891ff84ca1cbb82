"""Text in, layers out. By default a sentence's vectors depend on that sentence alone: not on its
batch-mates, their number or order, nor on anything embedded before.
"""

# L layers, n words, D vector dim, B sentences, T words in the longest
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.engine.engine import Engine, check_precision
from elmore.errors import ConfigError, InputError
from elmore.nn.lstm import LSTMState
from elmore.text.batching import windows
from elmore.text.dictionary import dictionary_lines
from elmore.text.tokenize import tokenize

Sentence = str | Sequence[str]
Vectors = NDArray[np.float32]

BATCH_WORDS = 4096
"""Words computed together, marks counted; memory grows with it, and speed up to about here."""
_BATCHES_IN_A_WINDOW = 4  # a stream sorts this many batches' worth by length
_SENTENCES_IN_A_WINDOW = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """One sentence: its words and every layer of their vectors."""

    words: list[str]
    layers: Vectors  # (L, n, D)
    spans: list[tuple[int, int]] | None = None
    """Where each word stands in the text, when the sentence was given as a string."""

    @property
    def top(self) -> Vectors:
        vectors: Vectors = self.layers[-1]
        return vectors  # (n, D)

    @property
    def average(self) -> Vectors:
        return np.asarray(self.layers.mean(axis=0), dtype=np.float32)  # (n, D)

    def mix(self, weights: Sequence[float], gamma: float = 1.0) -> Vectors:
        """γ Σ s_j h_j with the weights as they are given."""
        if len(weights) != len(self.layers):
            raise ConfigError(f"{len(weights)} mix weights given for {len(self.layers)} layers.")
        mixed = gamma * np.tensordot(np.asarray(weights, np.float32), self.layers, axes=1)
        return np.asarray(mixed, dtype=np.float32)  # (n, D)

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, slots=True)
class _Words:
    """A sentence that has been looked at: its words, and their spans if it was a string."""

    words: list[str]
    spans: list[tuple[int, int]] | None


class Embedder:
    """A finished biLM, ready to turn sentences into vectors."""

    def __init__(self, checkpoint: Checkpoint, device: str = "auto", precision: str = "float32"):
        self.device = _device(device)
        self.precision = check_precision(precision, checkpoint.model, self.device)
        self.checkpoint = checkpoint
        self.model = checkpoint.model.to(self.device).eval()
        self.speller = checkpoint.speller()

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        options: str | Path | None = None,
        device: str = "auto",
        precision: str = "float32",
    ) -> "Embedder":
        """A shipped name, a native folder, or a published file; see `elmore doctor SOURCE`.

        `precision` "int8" is several times as fast on a CPU and off by about a hundredth.
        """
        return cls(load(source, options=options), device=device, precision=precision)

    @property
    def dim(self) -> int:
        return self.model.config.dim

    @property
    def n_layers(self) -> int:
        return self.model.config.n_layers

    @cached_property
    def fingerprint(self) -> str:
        """Of config, weights, words and precision: it is shared only where vectors agree."""
        digest = hashlib.sha256(self.model.config.model_dump_json().encode())
        if self.precision != "float32":
            digest.update(f"{self.precision} 2".encode())  # the second way of rounding
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.float().cpu().contiguous().numpy().data)
        if self.speller is self.checkpoint.vocabulary:
            digest.update("".join(self.checkpoint.vocabulary.lines()).encode())
        if (dictionary := self.checkpoint.dictionary) is not None:
            for ids in (dictionary.characters, dictionary.words or {}):
                digest.update("".join(dictionary_lines(ids)).encode())
        return digest.hexdigest()

    def embed(
        self, sentences: Sequence[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> list[Embedding]:
        """All sentences at once; strings are tokenised, lists of words are taken as they are."""
        return self._embed_window(list(_read_all(sentences)), batch_words)

    def stream(
        self, sentences: Iterable[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> Iterator[Embedding]:
        """The same one after another, in input order and constant memory."""
        sized = ((read, len(read.words)) for read in _read_all(sentences))
        for window in windows(sized, _BATCHES_IN_A_WINDOW * batch_words, _SENTENCES_IN_A_WINDOW):
            yield from self._embed_window(window, batch_words)

    def stateful(self) -> "StatefulRun":
        """The original programs' behaviour: each row of a batch remembers the row before it."""
        return StatefulRun(self)

    @cached_property
    def engine(self) -> Engine:
        """Made at first use; after that the model's weights must stay as they are."""
        return Engine(self.model, self.speller, precision=self.precision)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, makes an engine of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "engine"}

    def _embed_window(self, sentences: list[_Words], batch_words: int) -> list[Embedding]:
        layers = self.engine.embed([s.words for s in sentences], batch_words)
        return _embeddings(sentences, layers)


class StatefulRun:
    """LSTM state carried from batch to batch by row, starting from zero."""

    def __init__(self, embedder: Embedder):
        self._embedder = embedder
        self._state = embedder.model.zero_state(0)

    def __enter__(self) -> "StatefulRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._state = self._embedder.model.zero_state(0)

    def embed(self, sentences: Sequence[Sentence]) -> list[Embedding]:
        """One batch: sentence i continues from what row i last read."""
        read = list(_read_all(sentences))
        if not read:
            return []
        n = len(read)
        before = _rows(self._state, n)
        layers, after = self._embedder.engine.embed_on([s.words for s in read], before)
        self._state = LSTMState(
            torch.cat([after.h, self._state.h[:, :, n:]], dim=2),
            torch.cat([after.c, self._state.c[:, :, n:]], dim=2),
        )
        return _embeddings(read, layers)


def _rows(state: LSTMState, n: int) -> LSTMState:
    """The first n rows; rows never used before are zero."""
    missing = max(0, n - state.h.shape[2])
    pad = (0, 0, 0, missing)
    h = torch.nn.functional.pad(state.h[:, :, :n], pad)
    return LSTMState(h, torch.nn.functional.pad(state.c[:, :, :n], pad))


def _embeddings(sentences: list[_Words], layers: list[NDArray[Any]]) -> list[Embedding]:
    return [
        Embedding(s.words, vectors.astype(np.float32, copy=False), s.spans)
        for s, vectors in zip(sentences, layers, strict=True)
    ]


def _read(sentence: object, position: int) -> _Words:
    if isinstance(sentence, str):
        tokens = tokenize(sentence)
        return _Words([t.text for t in tokens], [(t.start, t.end) for t in tokens])
    if isinstance(sentence, np.ndarray) and sentence.ndim == 1:
        sentence = sentence.tolist()
    if not isinstance(sentence, Sequence) or isinstance(sentence, bytes):
        raise InputError(
            f"Sentence {position} is a {type(sentence).__name__}; "
            "expected a string or a list of words."
        )
    for i, word in enumerate(sentence):
        if not isinstance(word, str):
            raise InputError(
                f"Sentence {position}, word {i} is a {type(word).__name__} ({word!r}); "
                "expected a string."
            )
    return _Words(list(sentence), None)


def read_words(sentences: object) -> list[list[str]]:
    """The words of every sentence: strings tokenised, lists of words as they are."""
    return [read.words for read in _read_all(sentences)]


def _read_all(sentences: object) -> Iterator[_Words]:
    if isinstance(sentences, str | bytes):
        raise InputError("Got one string where a list of sentences is expected: write [text].")
    if not isinstance(sentences, Iterable):
        raise InputError(f"Got a {type(sentences).__name__}; expected a list of sentences.")
    for position, sentence in enumerate(sentences):
        yield _read(sentence, position)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).cpu()  # a device that can be read back from
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"device is {name!r}: {first} Use 'auto', 'cpu' or 'cuda'.") from None
    return device
