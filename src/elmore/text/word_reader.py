"""Words as single integers: their places in the vocabulary of a model that has a table of words."""

from collections.abc import Sequence

import numpy as np

from elmore.text.reader import IntArray, ReadsWords
from elmore.text.vocabulary import Vocabulary

VOCABULARY = "vocab.txt"


class WordReader(ReadsWords):
    """A row has one place, the word's id."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary

    def spell(self, words: Sequence[str]) -> IntArray:
        ids = [self.vocabulary.id(word) for word in words]
        return np.array(ids, dtype=np.int64).reshape(-1, 1)  # (n, 1)

    def cuts(self, word: str) -> bool:
        return False

    def files(self) -> dict[str, bytes]:
        return {VOCABULARY: "".join(self.vocabulary.lines()).encode()}
