"""The words of an index for readers who browse: by how often they occur or by how many senses they
have, or those that contain some letters. Senses are counted in the background when somebody asks.
"""

from functools import cached_property
from threading import Event, Thread
from typing import Literal, NamedTuple

from elmore.search.index import Index
from elmore.text.function_words import is_content

Order = Literal["uses", "senses"]


class ListedWord(NamedTuple):
    """A word of the list; `senses` is None until they are counted."""

    word: str
    uses: int
    senses: int | None


class WordList:
    """The words of an index, the most frequent first."""

    def __init__(self, index: Index):
        self._index = index
        self._senses: dict[str, int] = {}
        self._stop = Event()
        self._counting: Thread | None = None

    @cached_property
    def _words(self) -> list[str]:
        frequencies = self._index.frequencies
        return sorted(frequencies, key=lambda word: (-frequencies[word], word))

    @cached_property
    def _content(self) -> list[str]:
        return [word for word in self._words if is_content(word)]

    @property
    def progress(self) -> float:
        """The share of words whose senses have been counted."""
        return len(self._senses) / max(1, len(self._content))

    def find(self, letters: str, order: Order) -> list[ListedWord]:
        """All words with these letters, those that begin with them first; without letters, all but
        function words and punctuation."""
        folded = letters.strip().casefold()
        words = self._content
        if folded:
            inside = [word for word in self._words if folded in word.casefold()]
            words = sorted(inside, key=lambda word: not word.casefold().startswith(folded))
        if order == "senses":
            self._count()
        frequencies, senses = self._index.frequencies, dict(self._senses)
        if order == "senses":
            words = sorted(words, key=lambda word: -senses.get(word, 0))
        return [ListedWord(word, frequencies[word], senses.get(word)) for word in words]

    def most_frequent(self, n: int) -> list[str]:
        return self._content[:n]

    def close(self) -> None:
        self._stop.set()
        if self._counting is not None:
            self._counting.join()

    def _count(self) -> None:
        """Begin to count, unless that was done before."""
        if self._counting is None:
            self._counting = Thread(target=self._count_all, name="counting senses", daemon=True)
            self._counting.start()

    def _count_all(self) -> None:
        for word in self._content:
            if self._stop.is_set():
                return
            self._senses[word] = self._index.n_senses(word)
