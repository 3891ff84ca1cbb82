"""Runs any model as it is, for kinds without a faster runner of their own."""

# L layers, B inputs, T words in the longest, n words of one, D vector dim
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from elmore.models.layers import LayerModel, LayerStates
from elmore.text.reader import Input, Reader


class ModuleRunner:
    """A model behind its reader; nothing is kept from call to call."""

    remembers = True

    def __init__(self, model: LayerModel, reader: Reader):
        self._model, self._reader = model, reader

    def embed(self, inputs: Sequence[Input]) -> list[NDArray[Any]]:
        """(L, n, D) per input."""
        states: LayerStates = self._model(self._reader.read(inputs))
        layers, mask = states.layers.cpu().numpy(), states.mask.cpu().numpy()
        return [layers[:, i, mask[i]] for i in range(len(inputs))]

    def forget(self) -> None:
        """Nothing to drop."""
