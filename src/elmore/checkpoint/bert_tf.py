"""BERT as Google published it: a TensorFlow checkpoint with bert_config.json and vocab.txt beside
it. The optimizer's variables are ignored.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmore.checkpoint.bert import bert_checkpoint, read_heads, read_model
from elmore.checkpoint.bert_config import AS_THE_FILES_SAY, WordOptions, config_from_options
from elmore.checkpoint.bert_names import tensorflow_name
from elmore.checkpoint.checkpoint import Checkpoint, NamedTensors
from elmore.checkpoint.loose_json import read_json
from elmore.checkpoint.tensor_bundle import TensorBundle
from elmore.checkpoint.wordpiece import read_wordpiece

BERT_CONFIG = "bert_config.json"
_SLOTS = ("/adam_m", "/adam_v")  # what the optimizer keeps per variable


def read_bert_tf(
    prefix: Path,
    options: Path,
    *,
    heads: bool = False,
    words: WordOptions = AS_THE_FILES_SAY,
) -> Checkpoint:
    """The checkpoint `prefix`, such as `folder/bert_model.ckpt`; its heads only if asked for."""
    raw = read_json(options)
    variables = _Variables(TensorBundle.open(prefix), options.name)
    config = config_from_options(raw, options, words, pooler="pooler.dense.weight" in variables)
    model = read_model(variables, config, "bert")
    variables.expect_nothing_else()
    found = read_heads(variables, model, "bert") if heads else {}
    wordpiece, notes = read_wordpiece(prefix.parent, config.n_pieces, words.lowercase)
    return bert_checkpoint(model, wordpiece, heads=found, options=raw, notes=notes)


class _Variables(NamedTensors[Tensor]):
    """The variables of a BERT, asked for by the names of Hugging Face."""

    def __init__(self, bundle: TensorBundle, judge: str):
        super().__init__(f"{bundle.prefix}.index", judge)
        self.bundle, self.known = bundle, set(bundle.names)

    def __contains__(self, name: str) -> bool:
        return tensorflow_name(name)[0] in self.known

    def names(self) -> Iterable[str]:
        return (n for n in self.known if n.startswith("bert/") and not n.endswith(_SLOTS))

    def find(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        known = name in self.known
        return (self.bundle.dtype(name), self.bundle.shape(name)) if known else None

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        theirs, transposed = tensorflow_name(name)
        self.claim(theirs, shape[::-1] if transposed else shape)
        array = np.asarray(self.bundle.read(theirs), dtype=np.float32)
        return torch.from_numpy(np.ascontiguousarray(array.T if transposed else array))
