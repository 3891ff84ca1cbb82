"""An ELMo at a place: its forward direction has read the words before it, its backward direction
the words after it, and each predicts the word through the softmax. Their product is normalized:

    p(w) = p_forward(w) p_backward(w) / Σ_v p_forward(v) p_backward(v)

This ranks words by the geometric mean of the two. Frequent words count twice; published models come
without the frequencies that could correct it.
"""

# B places, T words with marks, P projection dim, V words
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from elmore.checkpoint.bilm import language_model, speller_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.predictor.place import Place
from elmore.text.vocabulary import MARKS


class BothDirections:
    """A biLM with its softmax."""

    def __init__(self, checkpoint: Checkpoint, source: str, device: torch.device):
        self._model = language_model(checkpoint, source).to(device).eval()
        self._reader, self._device = speller_of(checkpoint), device
        assert checkpoint.vocabulary is not None, "language_model() has checked it"
        self.words = checkpoint.vocabulary.words
        self.whole = np.array([word not in MARKS for word in self.words])

    def length(self, place: Place) -> int:
        return self._reader.length(place.words)

    def log_probs(self, places: Sequence[Place]) -> Tensor:
        ahead, behind = self.directions(places)
        return torch.log_softmax(ahead.double() + behind.double(), dim=-1)

    @torch.no_grad()
    def directions(self, places: Sequence[Place]) -> tuple[Tensor, Tensor]:
        """What each direction predicts at each place by itself, (B, V) log-probabilities."""
        read = self._reader.read([place.words for place in places])
        arrays = (read.spelled, read.index, read.lengths)
        spelled, index, lengths = (torch.from_numpy(a).to(self._device) for a in arrays)
        top = self._model.bilm.run(spelled, index, lengths).states.layers[-1]  # (B, T, 2P)
        forward, backward = top.chunk(2, dim=-1)
        rows = torch.arange(len(places), device=self._device)
        before = torch.tensor([place.position for place in places], device=self._device)
        softmax = self._model.softmax  # the first mark is at 0, so a word is between i and i + 2
        ahead = softmax.distribution(forward[rows, before])  # (B, V)
        return ahead, softmax.distribution(backward[rows, before + 2])
