"""How much of a text a model cannot read, such as Chinese given to a model of English letters: all
such words look alike to it, and their vectors mean nothing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

from elmore.text.reader import Reader, Words

WORTH_A_WARNING = 0.2
"""The share of unreadable words from which a user is told."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """So many words of a text, and the first of them."""

    words: int
    of: int
    examples: tuple[str, ...]

    @property
    def share(self) -> float:
        return self.words / self.of

    def __str__(self) -> str:
        shown = ", ".join(self.examples).encode("utf-8", "replace").decode()
        return (
            f"cannot read {self.share:.0%} of the words ({shown}): their letters or the words are "
            "unknown to it, so their vectors mean nothing; use a model of this language."
        )


def find_unreadable(reader: Reader, sentences: Iterable[Words]) -> Unreadable | None:
    """What a model cannot read of these sentences; None if it is too little to be told."""
    counts = Counter(chain.from_iterable(sentences))
    unread = {word: n for word, n in counts.items() if reader.unreadable(word)}
    n_words, n_unread = counts.total(), sum(unread.values())
    if n_unread < max(1, WORTH_A_WARNING * n_words):
        return None
    return Unreadable(n_unread, n_words, tuple(word[:20] for word in islice(unread, 3)))
