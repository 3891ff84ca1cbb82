"""Static vectors as layers, for comparison with a biLM: a word's own vector, which is the same in
every sentence, and the mean of the words around it.
"""

# n words of a sentence, D vector dim
import numpy as np
from numpy.typing import NDArray

from elmore.embedder import Streams
from elmore.embedding import Embedding, ReadSentence
from elmore.models.static import StaticVectors

WINDOW = 5
"""Words on either side."""


class StaticContext(Streams):
    """Two layers: the word itself, and its neighbors without it. A word without a vector has zeros,
    and does not count as a neighbor."""

    n_layers = 2
    context_free = True

    def __init__(self, vectors: StaticVectors, window: int = WINDOW):
        self.vectors, self.window, self.dim = vectors, window, vectors.dim
        self.fingerprint = f"{vectors.fingerprint} {window}"

    def _embed_window(self, sentences: list[ReadSentence], batch_words: int) -> list[Embedding]:
        return [self._embed(sentence) for sentence in sentences]

    def _embed(self, sentence: ReadSentence) -> Embedding:
        rows = [self.vectors.row(word) for word in sentence.words]
        known = np.array([row is not None for row in rows], dtype=bool)
        own = np.zeros((len(rows), self.dim), np.float32)  # (n, D)
        own[known] = self.vectors.vectors[[row for row in rows if row is not None]]
        around = _around(own, known, self.window)
        return Embedding(sentence.words, np.stack([own, around]), sentence.spans)


def _around(own: NDArray[np.float32], known: NDArray[np.bool_], window: int) -> NDArray[np.float32]:
    """By differences of running sums, in double precision."""
    counted = np.column_stack([known, own]).astype(np.float64)  # (n, 1 + D)
    sums = np.vstack([np.zeros((1, counted.shape[1])), counted.cumsum(axis=0)])  # (n + 1, 1 + D)
    place = np.arange(len(own))
    first, last = np.maximum(place - window, 0), np.minimum(place + window + 1, len(own))
    total = sums[last] - sums[first] - counted  # (n, 1 + D)
    return np.asarray(total[:, 1:] / np.maximum(total[:, :1], 1), np.float32)  # (n, D)
