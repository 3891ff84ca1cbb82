"""The original programs' behavior: each row of a batch continues from the row before it."""

# L layers, n words, D vector dim
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from elmore.engine.runner import Runner
from elmore.errors import ConfigError
from elmore.models.bilm import BiLM
from elmore.models.layers import LayerModel
from elmore.nn.lstm import LSTMState


class StatefulRunner:
    """LSTM state carried from batch to batch by row, starting from zero."""

    def __init__(self, model: LayerModel, runner: Runner):
        if not isinstance(model, BiLM):
            raise ConfigError("Only an LSTM carries state; this model has none. Use embed().")
        self._model, self._runner = model, runner
        self.reset()

    def reset(self) -> None:
        """Forget what the rows have read."""
        self._state = self._model.zero_state(0)

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[NDArray[Any]]:
        """One batch, (L, n, D) per sentence: sentence i continues from what row i last read."""
        n = len(sentences)
        if not n:
            return []
        layers, after = self._runner.embed_on(sentences, _rows(self._state, n))
        self._state = LSTMState(
            torch.cat([after.h, self._state.h[:, :, n:]], dim=2),
            torch.cat([after.c, self._state.c[:, :, n:]], dim=2),
        )
        return layers


def _rows(state: LSTMState, n: int) -> LSTMState:
    """The first n rows; rows never used before are zero."""
    missing = max(0, n - state.h.shape[2])
    pad = (0, 0, 0, missing)
    h = torch.nn.functional.pad(state.h[:, :, :n], pad)
    return LSTMState(h, torch.nn.functional.pad(state.c[:, :, :n], pad))
