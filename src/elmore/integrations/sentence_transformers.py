"""sentence-transformers: a model as the first module, before a Pooling.

words = ElmoreWords("elmo-original")
SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension())])
"""

# B sentences, T words in the longest, K layers taken, D vector dim
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.modules import InputModule

from elmore.checkpoint.sources import save
from elmore.embedder import Embedder
from elmore.embedding import layer_choice, read_words

_MODEL = "elmore"
_WORDS = "words"


class ElmoreWords(InputModule):  # type: ignore[misc]
    """Token embeddings for the modules after it. The model is frozen."""

    config_keys = ["layers"]  # noqa: RUF012
    save_in_root = False

    def __init__(self, model: str | Embedder = "small-en", layers: str = "average"):
        super().__init__()
        self.embedder = Embedder.load(model) if isinstance(model, str) else model
        self.layers = layers
        self._choice = layer_choice(layers, self.embedder.n_layers, lens=self.embedder.lens)

    def get_embedding_dimension(self) -> int:
        return int(np.prod(self._choice.shape(self.embedder.dim)))

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Words, and a mask that says how many each text has."""
        texts = inputs if not prompt else [prompt + text for text in inputs]
        words = read_words(texts)
        lengths = torch.tensor([len(sentence) for sentence in words])
        longest = max(1, int(lengths.max())) if len(words) else 1
        return {_WORDS: words, "attention_mask": (torch.arange(longest) < lengths[:, None]).long()}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        mask = features["attention_mask"]
        vectors = torch.zeros(*mask.shape, self.get_embedding_dimension())  # (B, T, K·D)
        for i, found in enumerate(self.embedder.embed(features[_WORDS])):
            chosen = self._choice.select(found.layers, found.lens)  # (K, n, D)
            kept = torch.from_numpy(np.ascontiguousarray(chosen))
            vectors[i, : len(found)] = kept.transpose(0, 1).flatten(1)
        return {**features, "token_embeddings": vectors.to(mask.device)}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        self.save_config(output_path)
        save(self.embedder.checkpoint, Path(output_path) / _MODEL)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **given: Any) -> "ElmoreWords":
        hub = ("token", "cache_folder", "revision", "local_files_only")
        where = {name: given[name] for name in hub if name in given}
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **where)
        folder = cls.load_dir_path(model_name_or_path, f"{subfolder}/{_MODEL}".lstrip("/"), **where)
        return cls(str(folder), **config)
