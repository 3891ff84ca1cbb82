"""What bilm-tf leaves behind when it trains: a TensorFlow checkpoint with options.json beside it.
The variables are those of the HDF5 format under other names; the optimizer's are ignored.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from elmore.checkpoint.bilm import bilm_checkpoint, build_softmax, read_vocabulary
from elmore.checkpoint.checkpoint import Checkpoint, NamedTensors, build_model
from elmore.checkpoint.hdf5 import Array, read_tensors
from elmore.checkpoint.options import config_from_options, read_options
from elmore.checkpoint.tensor_bundle import TensorBundle

_SCOPE = "lm/"
_SLOTS = ("/Adagrad", "/Adam", "/Adam_1", "/Momentum")  # what optimizers keep per variable
_CELL = re.compile(r"RNN_(\d)/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/(W_0|B|W_P_0)")
_PARTS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


def read_bilm_tf(
    prefix: Path, options: Path, *, vocabulary: Path | None = None, heads: bool = False
) -> Checkpoint:
    """The checkpoint `prefix`, such as `folder/model.ckpt-1234`; its softmax only if asked for."""
    raw = read_options(options)
    variables = _Variables(TensorBundle.open(prefix), options.name)
    config = config_from_options(raw, options, n_words=variables.rows("embedding"))
    model = build_model(config, read_tensors(variables, config), str(prefix))
    output = _read_softmax(variables, config.context.dim) if heads else None
    words, notes = read_vocabulary(vocabulary, config, output)
    return bilm_checkpoint(model, vocabulary=words, softmax=output, options=raw, notes=notes)


class _Variables(NamedTensors[Array]):
    """The variables of the language model, asked for by the names of the HDF5 format."""

    def __init__(self, bundle: TensorBundle, judge: str):
        super().__init__(f"{bundle.prefix}.index", judge)
        self.bundle, self.known = bundle, set(bundle.names)

    def names(self) -> Iterable[str]:
        """The optimizer's variables and the softmax are ignored."""
        ours = {n for n in self.known if n.startswith(_SCOPE) and not n.endswith(_SLOTS)}
        return (name for name in ours if not name.startswith(_SCOPE + "softmax/"))

    def find(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        known = name in self.known
        return (self.bundle.dtype(name), self.bundle.shape(name)) if known else None

    def rows(self, name: str) -> int | None:
        return super().rows(self._theirs(name))

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        theirs = self._theirs(name)
        self.claim(theirs, shape)
        return np.asarray(self.bundle.read(theirs), dtype=np.float32)

    def _theirs(self, name: str) -> str:
        if not (cell := _CELL.fullmatch(name)):
            return _SCOPE + name
        direction, layer, part = cell.groups()
        at = f"{_SCOPE}RNN_{direction}/rnn/"
        deep = f"{at}multi_rnn_cell/cell_{layer}/lstm_cell/{_PARTS[part]}"
        lone = f"{at}lstm_cell/{_PARTS[part]}"  # one layer needs no MultiRNNCell around it
        return lone if layer == "0" and lone in self.known else deep


def _read_softmax(variables: _Variables, dim: int) -> nn.Linear | None:
    """Without a table of its own, the softmax shares the word table."""
    rows = variables.rows("softmax/b")
    if rows is None:
        return None
    table = "embedding" if variables.rows("softmax/W") is None else "softmax/W"
    weight = torch.from_numpy(variables.take(table, (rows, dim)))
    return build_softmax(weight, torch.from_numpy(variables.take("softmax/b", (rows,))))
