"""From sentences to pairs of a use and a word near it. NumPy only; the same generator gives the
same pairs.
"""

# n words of a batch, M uses that predict, P pairs, V words that are predicted, W offsets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.lens.config import LensConfig

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PredictedWords:
    """The words that are predicted, the most frequent first."""

    numbers: dict[str, int]
    keep: Doubles  # (V,): the probability that a use of the word is not passed over
    ends: Doubles  # (V,): cumulative probabilities of the samples

    @classmethod
    def counted(cls, sentences: Iterable[Sequence[str]], config: LensConfig) -> "PredictedWords":
        counts = Counter(word for words in sentences for word in words)
        often = sorted(
            (word for word, n in counts.items() if n >= config.min_count),
            key=lambda word: (-counts[word], word),
        )
        n = np.array([counts[word] for word in often], np.float64)
        keep = np.minimum(1.0, np.sqrt(config.frequent * counts.total() / n))
        ends = np.cumsum(n**config.power)
        return cls({word: i for i, word in enumerate(often)}, keep, ends / ends[-1:])

    def draw(self, n: int, rng: np.random.Generator) -> Ints:
        """Negative samples, (n,)."""
        return np.minimum(np.searchsorted(self.ends, rng.random(n), "right"), len(self.ends) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Uses that predict, and what each of them predicts."""

    uses: Ints  # (M,): places in the batch, end to end
    places: Ints  # (P,): which of the uses
    words: Ints  # (P,): the number of a word near it


def find_pairs(
    sentences: Sequence[Sequence[str]],
    known: PredictedWords,
    config: LensConfig,
    rng: np.random.Generator,
) -> Pairs:
    """All pairs of two uses in one sentence that are not passed over, at most `window` places
    apart; of more than `pairs` for one use, some are drawn."""
    numbers = np.array([known.numbers.get(w, -1) for words in sentences for w in words], np.int64)
    sentence = np.repeat(np.arange(len(sentences)), [len(words) for words in sentences])
    chances = np.append(known.keep, 0.0)[numbers]  # (n,), 0 where a word is not known
    kept = rng.random(len(numbers)) < chances
    uses = np.flatnonzero(kept)  # (M,)
    offsets = np.delete(np.arange(-config.window, config.window + 1), config.window)  # (W,)
    near = uses[:, None] + offsets  # (M, W)
    inside = (near >= 0) & (near < len(numbers))
    near = np.where(inside, near, 0)
    fits = inside & kept[near] & (sentence[near] == sentence[uses][:, None])
    order = np.argsort(np.where(fits, rng.random(fits.shape), 2.0), axis=1)[:, : config.pairs]
    chosen, real = (np.take_along_axis(array, order, axis=1) for array in (near, fits))
    places, columns = np.nonzero(real)
    return Pairs(uses, places, numbers[chosen[places, columns]])
