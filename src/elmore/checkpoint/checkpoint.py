"""What any model file becomes once it is read, and the checks all readers share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import FormatError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.softmax import AdaptiveSoftmax
from elmore.nn.word_char import WordCharConfig
from elmore.nn.word_table import WordTableConfig
from elmore.text.batching import Speller
from elmore.text.characters import ByteSpeller
from elmore.text.dictionary import DictionarySpeller
from elmore.text.vocabulary import Vocabulary


class LearnedMix(Frozen):
    """How a task that used the model has mixed its layers: γ Σ softmax(scalars)_j h_j."""

    scalars: tuple[float, ...]
    gamma: float
    layer_norm: bool = False
    """Layers were normed before they were mixed."""

    @property
    def weights(self) -> tuple[float, ...]:
        """s_j, the share of each layer; what `Embedding.mix` takes."""
        shares = torch.softmax(torch.tensor(self.scalars, dtype=torch.float64), dim=0)
        return tuple(shares.tolist())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A biLM with whatever came along: vocabulary, softmax, the options it was published with."""

    model: BiLM
    vocabulary: Vocabulary | None = None
    softmax: nn.Linear | AdaptiveSoftmax | None = None
    """Rows are the words of `vocabulary`; both directions share it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The foreign options file as it was, so that writing it back loses nothing."""
    dictionary: DictionarySpeller | None = None
    """Of a model that spells by dictionaries of its own."""
    mixes: tuple[LearnedMix, ...] = ()
    notes: tuple[str, ...] = ()
    """What the files did not say and had to be assumed."""

    def speller(self) -> Speller:
        words = self.model.config.words
        if isinstance(words, WordCharConfig):
            assert self.dictionary is not None  # no reader makes one without
            return self.dictionary
        if not isinstance(words, WordTableConfig):
            return ByteSpeller(words.max_characters)
        if self.vocabulary is None:
            raise FormatError(
                "This model reads words, not spellings, and its vocabulary is missing: "
                "put vocab.txt (one word a line, as in training) beside the weights."
            )
        return self.vocabulary


def build_model(config: BiLMConfig, tensors: Mapping[str, Tensor], source: str) -> BiLM:
    """A model that holds exactly `tensors`, or an error naming the first that does not fit."""
    try:
        with torch.device("meta"):
            model = BiLM(config)
    except (RuntimeError, TypeError, OverflowError):  # sizes past what an int64 can count
        raise FormatError(f"{source}: its config calls for tensors no machine can hold.") from None
    check_tensors({name: tuple(p.shape) for name, p in model.state_dict().items()}, tensors, source)
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise FormatError(
                f"{source}: '{name}' holds a number that is infinite or none; damaged."
            )
    model.load_state_dict(dict(tensors), assign=True)
    return model.requires_grad_(False).eval()


def build_softmax(weight: Tensor, bias: Tensor) -> nn.Linear:
    softmax = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    softmax.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return softmax.requires_grad_(False)


def check_tensors(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, Tensor], source: str
) -> None:
    for name, shape in expected.items():
        if name not in found:
            raise FormatError(f"{source}: tensor '{name}' {shape} is missing.")
        if tuple(found[name].shape) != shape:
            raise FormatError(
                f"{source}: tensor '{name}' has shape {tuple(found[name].shape)}, "
                f"but its config calls for {shape}."
            )
    if extra := sorted(set(found) - set(expected)):
        raise FormatError(f"{source}: tensor '{extra[0]}' is not part of the model in its config.")


def check_vocabulary(
    words: Vocabulary | None,
    model: BiLM,
    softmax: nn.Linear | AdaptiveSoftmax | None,
    source: str,
) -> None:
    """Ids are row numbers, so a vocabulary must be as long as the tables it numbers."""
    if words is None:
        return
    tables: dict[str, int] = {}
    if isinstance(model.config.words, WordTableConfig):
        tables["word table"] = model.config.words.n_words
    if softmax is not None:
        tables["softmax"] = softmax.out_features
    for name, rows in tables.items():
        if rows != len(words):
            raise FormatError(
                f"{source}: {len(words):,} words, but the model's {name} has {rows:,} rows; "
                "expected the vocabulary it was trained with."
            )
