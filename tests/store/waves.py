"""A stand-in for a model: vectors that depend on the sentence alone and cost nothing, so that a
test can fill a store hundreds of times and still know what must come back."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from elmore.embedder import Embedder, words_alone
from elmore.embedding import Embedding

L, D = 3, 8


class _Waves:
    n_layers, dim = L, D

    def __init__(self, name: str, context_free: bool):
        self.context_free = context_free
        self.fingerprint = f"{zlib.crc32(name.encode()):08x}" * 8
        self.asked = 0

    def stream(
        self, items: Iterable[Any], *, key: Callable[[Any], Any] | None = None, **_: object
    ) -> Iterator[Any]:
        for item in items:
            self.asked += 1
            words = list(item if key is None else key(item))
            embedding = Embedding(words, wave(words))
            yield embedding if key is None else (item, embedding)

    def static(self, texts: Sequence[Sequence[str]]) -> npt.NDArray[np.float32]:
        return words_alone(self.stream, texts)

    def embed(self, sentences: Iterable[list[str]], **_: object) -> list[Embedding]:
        return list(self.stream(sentences))


def waves(name: str = "waves", context_free: bool = True) -> Embedder:
    """Layer 0 depends on the sentence too, whatever `context_free` says of it."""
    return cast(Embedder, _Waves(name, context_free))


def wave(words: list[str]) -> npt.NDArray[np.float32]:
    """(L, n, D)."""
    seed = zlib.crc32("\n".join(words).encode("utf-8", "surrogatepass")) % 10_000
    numbers = np.arange(L * len(words) * D, dtype=np.float64)
    return np.sin(seed + numbers).reshape(L, len(words), D).astype(np.float32)


def sentences(n: int, first: int = 0) -> list[list[str]]:
    """Distinct ones of 0 to 6 words."""
    return [[f"w{i}", *"abcdef"[: i % 6]] if i else [] for i in range(first, first + n)]
