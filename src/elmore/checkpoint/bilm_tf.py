"""What bilm-tf leaves behind when it trains: a TensorFlow checkpoint with options.json beside it.
The variables are those of the HDF5 format under other names; the optimizer's are let be.
"""

import re
from pathlib import Path

import numpy as np
import torch
from torch import nn

from elmore.checkpoint.bilm import bilm_checkpoint, build_softmax, check_vocabulary
from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.hdf5 import Array, read_tensors
from elmore.checkpoint.options import config_from_options, read_options
from elmore.checkpoint.tensor_bundle import TensorBundle
from elmore.errors import FormatError
from elmore.text.vocabulary import Vocabulary

_SCOPE = "lm/"
_SLOTS = ("/Adagrad", "/Adam", "/Adam_1", "/Momentum")  # what optimizers keep for a variable
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
    words = None if vocabulary is None else Vocabulary.read(vocabulary)
    check_vocabulary(words, config, output, str(vocabulary))
    return bilm_checkpoint(model, vocabulary=words, softmax=output, options=raw)


class _Variables:
    """The variables under the names they would have in an HDF5 file."""

    def __init__(self, bundle: TensorBundle, judge: str):
        self.bundle, self.judge = bundle, judge
        self.names = set(bundle.names)
        self.taken: set[str] = set()

    def rows(self, name: str) -> int | None:
        theirs = self._theirs(name)
        shape = self.bundle.shape(theirs) if theirs in self.names else ()
        return shape[0] if shape else None

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        theirs = self._theirs(name)
        if theirs not in self.names:
            raise FormatError(
                f"{self.bundle.prefix}.index: the variable '{theirs}' is missing; {self.judge} "
                f"calls for float32 of shape {shape}."
            )
        found, kind = self.bundle.shape(theirs), self.bundle.dtype(theirs)
        if found != shape or "float" not in kind:
            raise FormatError(
                f"{self.bundle.prefix}.index: '{theirs}' is {kind} of shape {found}, but "
                f"{self.judge} calls for float32 of shape {shape}. The checkpoint and the options "
                "are probably from different models."
            )
        self.taken.add(theirs)
        return np.asarray(self.bundle.read(theirs), dtype=np.float32)

    def expect_nothing_else(self) -> None:
        """Every variable of the language model must have found its place."""
        ours = {n for n in self.names if n.startswith(_SCOPE) and not n.endswith(_SLOTS)}
        extra = sorted(n for n in ours - self.taken if not n.startswith(_SCOPE + "softmax/"))
        if extra:
            raise FormatError(
                f"{self.bundle.prefix}.index: holds '{extra[0]}', which {self.judge} does not call "
                "for. The checkpoint and the options are probably from different models."
            )

    def _theirs(self, name: str) -> str:
        if not (cell := _CELL.fullmatch(name)):
            return _SCOPE + name
        direction, layer, part = cell.groups()
        at = f"{_SCOPE}RNN_{direction}/rnn/"
        deep = f"{at}multi_rnn_cell/cell_{layer}/lstm_cell/{_PARTS[part]}"
        lone = f"{at}lstm_cell/{_PARTS[part]}"  # one layer needs no MultiRNNCell around it
        return lone if layer == "0" and lone in self.names else deep


def _read_softmax(variables: _Variables, dim: int) -> nn.Linear | None:
    """The table is the word table itself where the two were trained as one."""
    rows = variables.rows("softmax/b")
    if rows is None:
        return None
    table = "embedding" if variables.rows("softmax/W") is None else "softmax/W"
    weight = torch.from_numpy(variables.take(table, (rows, dim)))
    return build_softmax(weight, torch.from_numpy(variables.take("softmax/b", (rows,))))
