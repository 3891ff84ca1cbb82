"""One pass over a corpus before the first step: how often each word occurs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elmore.errors import InputError
from elmore.pretrain.sentences import ReadingConfig, read_sentences

_COUNTED_AT_MOST = 20_000_000  # distinct words; beyond it the rarest are forgotten


@dataclass(frozen=True, slots=True)
class Counts:
    """What a corpus holds."""

    words: dict[str, int]
    n_sentences: int
    n_words: int


Counting = Callable[[int], None]


def count_words(files: list[Path], reading: ReadingConfig, counting: Counting | None) -> Counts:
    """One pass over the corpus, in memory that does not grow without bound."""
    counts: Counter[str] = Counter()
    n_sentences = n_words = 0
    for path in files:
        for words in read_sentences(path, reading, check=True):
            counts.update(words)
            n_sentences, n_words = n_sentences + 1, n_words + len(words)
            if counting is not None and n_sentences % 10_000 == 0:
                counting(n_words)
            if len(counts) > _COUNTED_AT_MOST:
                counts = Counter({word: n for word, n in counts.items() if n > 1})
    if not n_sentences:
        names = ", ".join(str(path) for path in files[:3])
        raise InputError(f"{names}: no sentence found; expected one per line.")
    return Counts(counts, n_sentences, n_words)
