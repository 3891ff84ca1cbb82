"""A sentence with its vectors, how sentences are read (strings are tokenized, lists are not), and
which of a model's layers are used.
"""

# L layers of the model, K layers taken, n words, D vector dim
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from elmore.config import Frozen
from elmore.errors import ConfigError, InputError
from elmore.html import heat_cell, html_cell, html_table
from elmore.models.lens import MEANING, Lens
from elmore.nn.scalar_mix import ScalarMix
from elmore.text.reader import Input, Pair
from elmore.text.tokenize import tokenize

Sentence = str | Sequence[str]
Vectors = NDArray[np.float32]
Span = tuple[int, int]
_SHOWN, _IN_TABLE = 60, 20  # characters of a repr; words of a table in a notebook


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """One sentence: its words and every layer of their vectors."""

    words: list[str]
    layers: Vectors  # (L, n, D)
    spans: list[Span] | None = None
    """Where each word stands in the text, when the sentence was given as a string."""
    lens: Lens | None = None
    """Of the model, if it has one."""

    @property
    def meaning(self) -> Vectors:
        """The vectors of the lens, for comparing meanings; an error if the model has none."""
        if self.lens is None:
            raise ConfigError(
                "meaning: the model has no lens for meaning (`elmore lens MODEL CORPUS` learns one "
                "in minutes), or these layers are from a store, which has none either: if it keeps "
                "all layers, embedder.lens(embedding.layers) computes it."
            )
        return self.lens(self.layers)  # (n, D)

    @property
    def top(self) -> Vectors:
        vectors: Vectors = self.layers[-1]
        return vectors  # (n, D)

    @property
    def average(self) -> Vectors:
        return np.asarray(self.layers.mean(axis=0), dtype=np.float32)  # (n, D)

    def mix(self, weights: Sequence[float], gamma: float = 1.0) -> Vectors:
        """γ Σ s_j h_j with exactly these weights."""
        if len(weights) != len(self.layers):
            raise ConfigError(f"{len(weights)} mix weights given for {len(self.layers)} layers.")
        mixed = gamma * np.tensordot(np.asarray(weights, np.float32), self.layers, axes=1)
        return np.asarray(mixed, dtype=np.float32)  # (n, D)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, which: int | slice | str) -> Vectors:
        """The vector of a word, (D,), the average of its layers: by its number, or by the word
        itself where it stands once. A slice gives (k, D)."""
        found: Vectors = self.average[self._number(which) if isinstance(which, str) else which]
        return found

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[Any]:
        """`numpy.asarray(embedding)` is `average`, (n, D)."""
        return np.array(self.average, dtype=cast(Any, dtype))

    def _number(self, word: str) -> int:
        numbers = [i for i, own in enumerate(self.words) if own == word]
        if len(numbers) == 1:
            return numbers[0]
        if numbers:
            listed = ", ".join(map(str, numbers))
            raise InputError(
                f"{word!r} stands {len(numbers)} times, as words {listed}: write "
                f"embedding[{numbers[0]}] for the first."
            )
        near = difflib.get_close_matches(word, self.words, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{word!r} is not a word of this sentence.{hint}")

    def __repr__(self) -> str:
        text = " ".join(self.words)
        text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        n_layers, n_words, dim = self.layers.shape
        return f"<Embedding {text!r}: {n_words} words, {n_layers} layers × {dim}>"

    def _repr_html_(self) -> str:
        """For notebooks: how similar the words are to each other, by their average layers."""
        words = self.words[:_IN_TABLE]
        unit = self.average[:_IN_TABLE].astype(np.float64)
        unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
        cosines = unit @ unit.T
        rows = [[html_cell(word, head=True), *map(heat_cell, row)]
                for word, row in zip(words, cosines, strict=True)]  # fmt: skip
        head = [html_cell("", head=True), *(html_cell(word, head=True) for word in words)]
        return html_table([head, *rows], repr(self))


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence that has been checked: its words, and their spans if it was a string."""

    words: list[str]
    spans: list[Span] | None


def read_sentence(sentence: object, position: int) -> ReadSentence:
    """`position` is for the error message."""
    if isinstance(sentence, str):
        tokens = tokenize(sentence)
        return ReadSentence([t.text for t in tokens], [(t.start, t.end) for t in tokens])
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
    return ReadSentence(list(sentence), None)


def checked(sentences: object) -> Iterable[object]:
    """The same, or an error if it is not a collection of sentences."""
    if isinstance(sentences, str | bytes):
        raise InputError("Got one string where a list of sentences is expected: write [text].")
    if not isinstance(sentences, Iterable):
        raise InputError(f"Got a {type(sentences).__name__}; expected a list of sentences.")
    return sentences


def read_sentences(sentences: object) -> Iterator[ReadSentence]:
    """One after another; an error names the sentence's position."""
    return (read_sentence(sentence, i) for i, sentence in enumerate(checked(sentences)))


def read_words(sentences: object) -> list[list[str]]:
    """The words of every sentence."""
    return [read.words for read in read_sentences(sentences)]


def read_inputs(inputs: object) -> list[Input]:
    """The words of every sentence; pairs are taken as they are."""
    found = enumerate(checked(inputs))
    return [item if isinstance(item, Pair) else read_sentence(item, i).words for i, item in found]


# Which layers -------------------------------------------------------------------------------------

_NUMBERS = re.compile(r"[0-9]{1,4}(,[0-9]{1,4})*")
_MIX = "mix:"


class Layers(Frozen):
    """Layers as they are, in the order given."""

    kind: Literal["layers"] = "layers"
    numbers: tuple[int, ...] = Field(min_length=1)

    def shape(self, dim: int) -> tuple[int, int]:
        """(K, D) of what is taken from a model whose vectors are `dim` long."""
        return len(self.numbers), dim

    def select(self, layers: Vectors, lens: Lens | None = None) -> Vectors:
        """(L, n, D) -> (K, n, D)."""
        return layers[list(self.numbers)]

    def described(self) -> str:
        return f"layers {', '.join(map(str, self.numbers))}"


class Average(Frozen):
    """The mean of all layers."""

    kind: Literal["average"] = "average"

    def shape(self, dim: int) -> tuple[int, int]:
        return 1, dim

    def select(self, layers: Vectors, lens: Lens | None = None) -> Vectors:
        """(L, n, D) -> (1, n, D)."""
        return np.asarray(layers.mean(axis=0, keepdims=True), np.float32)

    def described(self) -> str:
        return "the average of all layers"


class Mix(Frozen):
    """γ Σ s_j h_j, with the weights a task has learned."""

    kind: Literal["mix"] = "mix"
    weights: tuple[float, ...]
    """s_j, after the softmax."""
    gamma: float

    def shape(self, dim: int) -> tuple[int, int]:
        return 1, dim

    def select(self, layers: Vectors, lens: Lens | None = None) -> Vectors:
        """(L, n, D) -> (1, n, D)."""
        weights = np.asarray(self.weights, np.float32) * np.float32(self.gamma)
        return np.asarray(np.tensordot(weights, layers, axes=1)[None], np.float32)

    def described(self) -> str:
        weights = " ".join(f"{weight:.3f}" for weight in self.weights)
        return f"a mix, weights {weights}, gamma {self.gamma:.3f}"


class Meaning(Frozen):
    """The vectors of one lens."""

    kind: Literal["meaning"] = "meaning"
    lens: str
    """Its digest: vectors of different lenses cannot be compared."""

    def shape(self, dim: int) -> tuple[int, int]:
        return 1, dim

    def select(self, layers: Vectors, lens: Lens | None = None) -> Vectors:
        """(L, n, D) -> (1, n, D)."""
        return self.fitting(lens)(layers)[None]

    def fitting(self, lens: Lens | None) -> Lens:
        """The lens, or an error if it is another one."""
        if need_lens(lens).digest != self.lens:
            raise InputError(
                f"These are vectors of the lens {self.lens[:12]}, but the model's is now "
                f"{need_lens(lens).digest[:12]}; use the model with that lens, or make them again."
            )
        return need_lens(lens)

    def described(self) -> str:
        return f"the lens for meaning ({self.lens[:12]})"


class LayersAndMeaning(Meaning):
    """Layers as they are, and last the vectors of the lens."""

    kind: Literal["layers+meaning"] = "layers+meaning"  # type: ignore[assignment]
    numbers: tuple[int, ...] = Field(min_length=1)

    def shape(self, dim: int) -> tuple[int, int]:
        return len(self.numbers) + 1, dim

    def select(self, layers: Vectors, lens: Lens | None = None) -> Vectors:
        """(L, n, D) -> (K, n, D)."""
        return np.concatenate([layers[list(self.numbers)], super().select(layers, lens)])

    def described(self) -> str:
        return f"layers {', '.join(map(str, self.numbers))} and {super().described()}"


def need_lens(lens: Lens | None, option: str = MEANING) -> Lens:
    """The lens, or an error that says how to get one."""
    if lens is None:
        raise ConfigError(
            f"{option}: the model has no lens for meaning; `elmore lens MODEL CORPUS` learns one "
            "in minutes."
        )
    return lens


Choice = Layers | Average | Mix | Meaning | LayersAndMeaning
LayerChoice = Annotated[Choice, Field(discriminator="kind")]
LayersAsked = str | Sequence[int] | ScalarMix | Mix
"""all, top, average, meaning, numbers such as 0,2, mix:0.2,0.5,0.3, or the same as objects."""


def is_layer_choice(text: str) -> bool:
    """Whether this is a choice for some model: all, top, average, meaning, or numbers."""
    return text in ("all", "top", "average", MEANING) or _NUMBERS.fullmatch(text) is not None


def layer_choice(
    asked: LayersAsked, n_layers: int, option: str = "layers", lens: Lens | None = None
) -> Choice:
    """What is asked for, checked against the model; errors call it `option`."""
    match asked:
        case "meaning":
            return Meaning(lens=need_lens(lens, f"{option} is '{MEANING}'").digest)
        case "average":
            return Average()
        case "all" | "top":
            return Layers(numbers=tuple(range(n_layers))[0 if asked == "all" else -1 :])
        case ScalarMix():
            return _checked_mix(_learned(asked), n_layers)
        case Mix():
            return _checked_mix(asked, n_layers)
        case str() if _NUMBERS.fullmatch(asked):
            return _numbered(tuple(int(number) for number in asked.split(",")), n_layers, option)
        case str() if asked.startswith(_MIX):
            return _checked_mix(_written_mix(asked, option), n_layers)
        case str():
            raise ConfigError(f"{option} is {asked!r}; {_EXPECTED}")
        case Sequence():
            return _numbered(tuple(cast(Sequence[int], asked)), n_layers, option)
    raise ConfigError(f"{option} is a {type(asked).__name__}; {_EXPECTED}")


_EXPECTED = "expected all, top, average, meaning, numbers such as 0,2, or mix:0.2,0.5,0.3."


def _numbered(numbers: tuple[int, ...], n_layers: int, option: str) -> Layers:
    fitting = (type(number) is int and 0 <= number < n_layers for number in numbers)
    if not numbers or not all(fitting):
        raise ConfigError(
            f"{option} is {','.join(map(str, numbers)) or 'empty'}, but the model has the layers 0 "
            f"to {n_layers - 1}."
        )
    return Layers(numbers=numbers)


def _written_mix(text: str, option: str) -> Mix:
    try:
        weights = tuple(float(weight) for weight in text.removeprefix(_MIX).split(","))
    except ValueError:
        raise ConfigError(f"{option} is {text!r}; {_EXPECTED}") from None
    return Mix(weights=weights, gamma=1.0)


def _learned(mix: ScalarMix) -> Mix:
    if mix.layer_norm:
        raise ConfigError(
            "A mix with layer norm depends on the whole batch, so no sentence can be stored "
            "with it; store the layers instead: keep='all'."
        )
    return Mix(weights=tuple(mix.weights.tolist()), gamma=mix.gamma.item())


def _checked_mix(mix: Mix, n_layers: int) -> Mix:
    if len(mix.weights) != n_layers:
        raise ConfigError(f"{len(mix.weights)} mix weights given for {n_layers} layers.")
    if not all(math.isfinite(number) for number in (*mix.weights, mix.gamma)):
        raise ConfigError(f"A mix of {mix.weights} times {mix.gamma}; expected finite numbers.")
    return mix
