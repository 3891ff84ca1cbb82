"""The words most likely at a place in a sentence: by a BERT with its head of masked words, or by
both directions of an ELMo with its softmax.
"""

# B places, V words, K substitutes
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from elmore.checkpoint.bert_config import word_options
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.embedder import Embedder, find_device
from elmore.embedding import Sentence
from elmore.engine.runner import exactly
from elmore.errors import ConfigError, FormatError, InputError
from elmore.models.bert import Bert
from elmore.models.bilm import BiLM
from elmore.predictor.both_directions import BothDirections
from elmore.predictor.masked import Masked
from elmore.predictor.place import Place, PlacePredictor, Substitute, read_place
from elmore.text.batching import BATCH_WORDS, batches_by_length

_SCORES = 1 << 24
"""Numbers, places × words, computed together: 128 MB at most for each of a few tables."""


class Predictor:
    """A model that can predict words, ready to be asked for substitutes."""

    def __init__(self, checkpoint: Checkpoint, device: str = "auto", source: str = "The model"):
        self.device = find_device(device)
        self._inner = _place_predictor(checkpoint, source, self.device)
        self._whole = torch.from_numpy(self._inner.whole).to(self.device)  # (V,)

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        options: str | Path | None = None,
        device: str = "auto",
        lowercase: bool | None = None,
    ) -> "Predictor":
        """Any model with its head: see `Embedder.load`."""
        words = word_options(lowercase, None)
        checkpoint = load(source, options=options, heads=True, words=words)
        return cls(checkpoint, device=device, source=str(source))

    @classmethod
    def of(cls, embedder: Embedder) -> "Predictor | None":
        """Of a model that is loaded already; None if what predicts words is missing."""
        try:
            return cls(embedder.checkpoint, device=str(embedder.device))
        except FormatError:
            return None

    def substitutes(
        self,
        places: Iterable[tuple[Sentence, int]],
        *,
        top: int = 10,
        whole_words: bool = True,
        batch_words: int = BATCH_WORDS,
    ) -> list[list[Substitute]]:
        """For each place, a sentence and the number of a word in it, its most likely words, the
        best first. The word that is there has no influence. Marks and pieces that continue a word
        are left out, unless `whole_words` is false; probabilities are always out of everything the
        model can predict, so those of the list add up to less than one."""
        if top < 1:
            raise ConfigError(f"top is {top}; expected 1 or more.")
        read = _read_places(places)
        found: dict[int, list[Substitute]] = {}
        most = max(1, _SCORES // len(self._inner.words))
        lengths = [self._inner.length(place) for place in read]
        with exactly(self.device.type):
            for batch in batches_by_length(lengths, batch_words):
                for some in (batch[i : i + most] for i in range(0, len(batch), most)):
                    scores = self._inner.log_probs([read[i] for i in some])  # (B, V)
                    found.update(zip(some, self._best(scores, top, whole_words), strict=True))
        return [found[i] for i in range(len(read))]

    def _best(self, scores: Tensor, top: int, whole_words: bool) -> list[list[Substitute]]:
        n = len(self._whole)
        if whole_words:
            scores, n = scores.masked_fill(~self._whole, -torch.inf), int(self._whole.sum())
        best, numbers = scores.topk(min(top, n), dim=-1)  # (B, K)
        pairs = zip(best.exp().tolist(), numbers.tolist(), strict=True)
        words = self._inner.words
        return [
            [Substitute(words[i], p) for p, i in zip(row, at, strict=True)] for row, at in pairs
        ]


def _read_places(places: object) -> list[Place]:
    expected = "expected a list of (sentence, number of a word)"
    if isinstance(places, str | bytes) or not isinstance(places, Iterable):
        raise InputError(f"Got a {type(places).__name__}; {expected}.")
    read: list[Place] = []
    for number, place in enumerate(places):
        if isinstance(place, str) or not isinstance(place, Sequence) or len(place) != 2:
            raise InputError(f"Place {number} is {place!r:.80}; {expected}.")
        read.append(read_place(place[0], place[1], number))
    return read


def _place_predictor(checkpoint: Checkpoint, source: str, device: torch.device) -> PlacePredictor:
    match checkpoint.model:
        case Bert():
            return Masked(checkpoint, source, device)
        case BiLM():
            return BothDirections(checkpoint, source, device)
    kind = type(checkpoint.model).__name__
    raise FormatError(f"{source}: a {kind} does not predict words; take an ELMo or a BERT.")
