"""Text in, layers out. By default a sentence's vectors depend on that sentence alone: not on the
other sentences of its batch, nor on anything embedded before.
"""

# L layers, n words, D vector dim, B sentences, T words in the longest
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.checkpoint.bert_config import word_options
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load, save
from elmore.embedding import (
    Embedding,
    LayersAsked,
    ReadSentence,
    Sentence,
    Vectors,
    checked,
    layer_choice,
    read_sentence,
    read_sentences,
)
from elmore.engine.runner import Runner, check_precision, exactly, runner_for
from elmore.errors import ConfigError, ElmoreWarning
from elmore.models.lens import Lens
from elmore.text.batching import BATCH_WORDS, windows
from elmore.text.unreadable import find_unreadable

Item = TypeVar("Item")

_BATCHES_IN_A_WINDOW = 4  # a stream sorts this many batches' worth by length
_SENTENCES_IN_A_WINDOW = 4096


class LayerSource(Protocol):
    """Anything that gives layers for sentences: a model, a store, static vectors. Everything
    downstream takes one of these, whichever it is."""

    @property
    def n_layers(self) -> int: ...

    @property
    def dim(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Equal only if the layers are equal."""

    @property
    def context_free(self) -> bool:
        """Whether layer 0 gives a word the same vector in every sentence."""

    def static(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Texts, or single words, without context: their words' vectors averaged, (n, D)."""

    @overload
    def stream(self, items: Iterable[Sentence]) -> Iterator[Embedding]: ...

    @overload
    def stream(
        self, items: Iterable[Item], *, key: Callable[[Item], Sentence]
    ) -> Iterator[tuple[Item, Embedding]]: ...


class Streams(ABC):
    """What every embedder shares: `embed` and `stream`, over windows of sentences."""

    @abstractmethod
    def _embed_window(self, sentences: list[ReadSentence], batch_words: int) -> list[Embedding]:
        """The sentences together, in their order."""

    def window_words(self, batch_words: int) -> int:
        """How many words `stream` reads before it embeds them."""
        return _BATCHES_IN_A_WINDOW * batch_words

    def embed(
        self, sentences: Sequence[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> list[Embedding]:
        """All sentences at once; strings are tokenized, lists of words are taken as they are."""
        return self._embed_window(list(read_sentences(sentences)), batch_words)

    def sentence_vectors(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayersAsked = "average",
        batch_words: int = BATCH_WORDS,
    ) -> Vectors:
        """One vector per sentence, the mean of its words', (B, D); zero if it has no words.
        `layers` is average, top, meaning, a layer's number or mix:0.2,0.5,0.3."""
        means = [_mean(e, layers) for e in self.stream(sentences, batch_words=batch_words)]
        return np.stack(means) if means else np.zeros((0, 0), np.float32)

    def static(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Texts without context: layer 0 of each word alone, averaged, (n, D)."""
        return words_alone(self.stream, texts)

    @overload
    def stream(
        self, items: Iterable[Sentence], *, batch_words: int = BATCH_WORDS
    ) -> Iterator[Embedding]: ...

    @overload
    def stream(
        self,
        items: Iterable[Item],
        *,
        key: Callable[[Item], Sentence],
        batch_words: int = BATCH_WORDS,
    ) -> Iterator[tuple[Item, Embedding]]: ...

    def stream(
        self,
        items: Iterable[Any],
        *,
        key: Callable[[Any], Sentence] | None = None,
        batch_words: int = BATCH_WORDS,
    ) -> Iterator[Any]:
        """In input order and constant memory. With `key`, which finds the sentence of an item,
        each embedding comes with its item."""
        for window in self.stream_windows(items, key or (lambda item: item), batch_words):
            yield from window if key is not None else (embedding for _, embedding in window)

    def stream_windows(
        self, items: Iterable[Item], key: Callable[[Item], Sentence], batch_words: int
    ) -> Iterator[list[tuple[Item, Embedding]]]:
        """`stream`, in windows: what is computed together, so that a run which begins again after
        one of them computes the same."""
        for window in self._read_windows(items, key, batch_words):
            found = self._embed_window([sentence for _, sentence in window], batch_words)
            yield [(item, new) for (item, _), new in zip(window, found, strict=True)]

    def _read_windows(
        self, items: Iterable[Any], key: Callable[[Any], Sentence], batch_words: int
    ) -> Iterator[list[tuple[Any, ReadSentence]]]:
        read = ((item, read_sentence(key(item), i)) for i, item in enumerate(checked(items)))
        sized = ((pair, len(pair[1].words)) for pair in read)
        return windows(sized, self.window_words(batch_words), _SENTENCES_IN_A_WINDOW)


class Embedder(Streams):
    """A finished model, ready to turn sentences into vectors."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: str = "auto",
        precision: str = "float32",
        source: str | None = None,
    ):
        if not isinstance(checkpoint, Checkpoint):
            raise ConfigError(
                f"Embedder({checkpoint!r:.80}): this is for a Checkpoint that is loaded already; "
                f"write Embedder.load({checkpoint!r:.80})."
            )
        self.device = find_device(device)
        self.precision = check_precision(precision, checkpoint.model, self.device)
        self.checkpoint, self.source = checkpoint, source
        self.model = checkpoint.model.to(self.device).eval()
        self.reader = checkpoint.need_reader()
        self._has_warned = False

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        options: str | Path | None = None,
        device: str = "auto",
        precision: str = "float32",
        pieces: str | None = None,
        lowercase: bool | None = None,
        heads: bool = False,
        download: bool = True,
    ) -> "Embedder":
        """A shipped name, a folder, a file, a published name (`elmo-original`; `elmore models`
        lists them) or `hf:owner/name`. See also `elmore doctor SOURCE`.

        `precision` "int8" is two to four times as fast on a CPU, with an error of some percent; it
        is for LSTMs and BERT. "bfloat16" is for BERT where the CPU or GPU has units for it.
        A model that reads pieces of words, such as BERT, gives a word the vector of its first
        piece, or with `pieces` "mean" the mean of all. `lowercase` is needed only where the
        model's files do not say whether it reads lowercased text. `heads` also loads what predicts
        words, if it is there; a `Predictor` needs it. With `download` False, a published model
        must be in the cache already.
        """
        words = word_options(lowercase, pieces)
        checkpoint = load(source, options=options, heads=heads, words=words, download=download)
        return cls(checkpoint, device=device, precision=precision, source=str(source))

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> "Embedder":
        """`load`, under the name it has elsewhere."""
        return cls.load(source, **options)

    def save(self, target: str | Path) -> list[Path]:
        """Write the model as a new folder, or as HDF5 or an archive if the name ends in .hdf5, .zip
        or .tar.gz; `load` takes it. Returns what was written."""
        return save(self.checkpoint, Path(target))

    save_pretrained = save

    def to(self, device: str) -> "Embedder":
        """Move the model to another device, and return it."""
        there = find_device(device)
        self.precision = check_precision(self.precision, self.model, there)
        self.device = there
        self.model.to(there)
        self.__dict__.pop("runner", None)
        return self

    def __call__(self, sentences: Sequence[Sentence]) -> list[Embedding]:
        """`embed`."""
        return self.embed(sentences)

    def encode(self, *_: object, **__: object) -> NoReturn:
        """Elsewhere this means one of two things, which have their own names here."""
        raise ConfigError(
            "An Embedder does not encode(): write embed(sentences) for the vectors of every word, "
            "or sentence_vectors(sentences) for one vector per sentence."
        )

    def __repr__(self) -> str:
        kind = type(self.model).__name__
        named = "" if self.source is None else f"{self.source!r}, "
        size = f"{self.n_layers} layers × {self.dim}"
        return f"<Embedder {named}{kind}, {size}, {self.device}, {self.precision}>"

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def n_layers(self) -> int:
        return self.model.n_layers

    @property
    def context_free(self) -> bool:
        return self.model.context_free

    @property
    def lens(self) -> Lens | None:
        """For meaning, if the model has one."""
        return self.checkpoint.lens

    @cached_property
    def fingerprint(self) -> str:
        """Of config, weights, words and precision: equal only if the layers are equal."""
        return self.checkpoint.fingerprint(self.precision)

    def stateful(self) -> "StatefulRun":
        """The original programs' behavior: row i of a batch continues from row i of the last."""
        return StatefulRun(self)

    @cached_property
    def runner(self) -> Runner:
        """Built at first use; after that the model's weights must not change."""
        return runner_for(self.model, self.reader, precision=self.precision)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, builds its own runner."""
        return {name: value for name, value in self.__dict__.items() if name != "runner"}

    def static(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Texts without context, (n, D): by the model's table, or by layer 0 of words alone."""
        with exactly(self.device.type):
            found = self.model.static(self.reader.read(texts))
        return super().static(texts) if found is None else found.float().cpu().numpy()

    def _embed_window(self, sentences: list[ReadSentence], batch_words: int) -> list[Embedding]:
        words = [sentence.words for sentence in sentences]
        self.warn_if_unreadable(words)
        return embeddings_of(sentences, self.runner.embed(words, batch_words), self.lens)

    def warn_if_unreadable(self, sentences: list[list[str]]) -> None:
        """Once, if the model knows nothing of many of these words."""
        if not self._has_warned and (found := find_unreadable(self.reader, sentences)):
            self._has_warned = True
            warnings.warn(f"{self.source or 'The model'} {found}", ElmoreWarning, stacklevel=4)


def _mean(embedding: Embedding, layers: LayersAsked) -> Vectors:
    choice = layer_choice(layers, len(embedding.layers), lens=embedding.lens)
    chosen = choice.select(embedding.layers, embedding.lens)  # (K, n, D)
    if len(chosen) != 1:
        raise ConfigError(
            f"layers is {layers!r}, which is {len(chosen)} vectors per word; one vector per "
            "sentence takes average, top, meaning, one number or a mix."
        )
    mean = chosen[0].mean(axis=0) if len(embedding) else np.zeros(chosen.shape[2])
    return np.asarray(mean, np.float32)


def words_alone(
    stream: Callable[[Iterable[Sentence]], Iterator[Embedding]], texts: Sequence[Sequence[str]]
) -> Vectors:
    """The mean of layer 0 of a text's words, each embedded as a sentence of its own, (n, D)."""
    words = list(dict.fromkeys(word for text in texts for word in text))
    alone = dict(zip(words, stream([[word] for word in words]), strict=True))
    means = [np.mean([alone[word].layers[0, 0] for word in text], axis=0) for text in texts]
    return np.stack(means)


class StatefulRun:
    """LSTM state carried from batch to batch by row, starting from zero."""

    def __init__(self, embedder: Embedder):
        self._embedder, self._runner = embedder, embedder.runner
        self._state = self._runner.zero_state()

    def __enter__(self) -> "StatefulRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._state = self._runner.zero_state()

    def embed(self, sentences: Sequence[Sentence]) -> list[Embedding]:
        """One batch: sentence i continues from what row i last read."""
        read = list(read_sentences(sentences))
        if not read:
            return []
        words = [sentence.words for sentence in read]
        self._embedder.warn_if_unreadable(words)
        layers, after = self._runner.embed_on(words, self._state.rows(len(read)))
        self._state = self._state.with_first(after)
        return embeddings_of(read, layers, self._embedder.lens)


def lens_of(source: LayerSource | None) -> Lens | None:
    """The lens of a source; only models, and caches of all their layers, may have one."""
    return getattr(source, "lens", None)


def embeddings_of(
    sentences: list[ReadSentence], layers: list[NDArray[Any]], lens: Lens | None
) -> list[Embedding]:
    return [
        Embedding(s.words, vectors.astype(np.float32, copy=False), s.spans, lens)
        for s, vectors in zip(sentences, layers, strict=True)
    ]


def find_device(name: str) -> torch.device:
    """`auto` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).cpu()  # a device that can be read back from
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"device is {name!r}: {first} Use 'auto', 'cpu' or 'cuda'.") from None
    return device
