"""A small random ELMo with its softmax and vocabulary, on disk, and its arrays for the oracle."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.oracle import lstm_elmo
from tests.tiny_models import OPTIONS, WORDS

Weights = dict[str, npt.NDArray[np.float32]]


def make_language_model(folder: Path, seed: int = 2) -> Weights:
    """Files in `folder`; load `folder / "weights.hdf5"`."""
    W = lstm_elmo.random_weights(OPTIONS, np.random.default_rng(seed), len(WORDS))
    softmax = {name: W.pop(name) for name in ("softmax/W", "softmax/b")}
    lstm_elmo.write_hdf5(folder / "weights.hdf5", W)
    lstm_elmo.write_hdf5(folder / "softmax.hdf5", softmax)
    (folder / "options.json").write_text(json.dumps(OPTIONS), encoding="utf-8")
    (folder / "vocab.txt").write_text("".join(w + "\n" for w in WORDS), encoding="utf-8")
    return {**W, **softmax}
