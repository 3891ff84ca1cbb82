"""Small random models on disk in the HDF5 format, made by the oracle, for tests of every room."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracle import lstm_elmo

OPTIONS: dict[str, Any] = {
    "lstm": {
        "dim": 12,
        "projection_dim": 8,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 6], [3, 5]],
        "max_characters_per_token": 50,
        "n_characters": 262,
        "n_highway": 1,
    },
}
WORDS = ["<S>", "</S>", "<UNK>", "the", "river", "bank", ".", "\u3000", "naïve"]
SENTENCES = [
    ["The", "river", "bank", "."],
    ["x" * 300, "", "naïve", "東京", "👩‍🔬", "\ud800", "a\ud800b", "\x00\x07"],
    ["one"],
    [f"word{i % 17}" for i in range(40)],
    [],
    ["<S>", "literal", "</S>", "<UNK>", "the", "bank"],
]


@dataclass(frozen=True)
class Tiny:
    """One model on disk, and what the oracle needs to run it."""

    weights: Path
    options_path: Path
    W: dict[str, npt.NDArray[np.float32]]
    options: dict[str, Any]
    vocab: list[str] | None = None

    def layers(self, words: list[str], state: Any = None) -> tuple[npt.NDArray[np.float64], Any]:
        return lstm_elmo.layers(self.W, self.options, words, state, self.vocab)


def options_with(**changes: dict[str, Any]) -> dict[str, Any]:
    """`OPTIONS`, the sections changed; a key given as `...` is left out."""
    options = copy.deepcopy(OPTIONS)
    for section, values in changes.items():
        merged = {**options[section], **values}
        options[section] = {k: v for k, v in merged.items() if v is not ...}
    return options


def make(
    folder: Path, options: dict[str, Any] = OPTIONS, *, seed: int = 0, words: bool = False
) -> Tiny:
    """Weights, options and, for a model that reads words, vocab.txt in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if words:
        options = {k: v for k, v in options.items() if k != "char_cnn"}
        (folder / "vocab.txt").write_text("".join(w + "\n" for w in WORDS), encoding="utf-8")
    vocab_size = len(WORDS) if words else None
    W = lstm_elmo.random_weights(options, np.random.default_rng(seed), vocab_size)
    W = {name: array for name, array in W.items() if not name.startswith("softmax")}
    weights, path = folder / "weights.hdf5", folder / "options.json"
    lstm_elmo.write_hdf5(weights, W)
    path.write_text(json.dumps(options), encoding="utf-8")
    return Tiny(weights, path, W, options, WORDS if words else None)
