"""A word as a row of character ids, the way every published LSTM ELMo spells it: UTF-8 bytes
between two marks, padded, and shifted by one so that 0 can mean "no word here".
"""

# C characters in a row
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmore.errors import ConfigError
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END, Speller

N_CHARACTER_IDS = 262  # 256 bytes, four marks and the padding character, + 1 for "no word"

_SHIFT = 1
_BEGIN_SENTENCE, _END_SENTENCE, _BEGIN_WORD, _END_WORD, _PAD = 256, 257, 258, 259, 260


class ByteReader(Speller):
    """Reads words as rows of byte ids; the marks `<S>` and `</S>` have rows of their own."""

    def __init__(self, max_characters: int = 50):
        if max_characters < 3:
            raise ConfigError(
                f"max_characters is {max_characters}: a word needs at least 3 places "
                "(begin mark, one character, end mark)."
            )
        self.max_characters = max_characters

    def spell(self, words: Sequence[str]) -> NDArray[np.int64]:
        rows = np.full((len(words), self.max_characters), _PAD, dtype=np.int64)  # (n, C)
        for row, word in zip(rows, words, strict=True):
            ids = self._ids(word)
            row[: len(ids)] = ids
        return rows + _SHIFT

    def cuts(self, word: str) -> bool:
        return len(word.encode("utf-8", "ignore")) > self.max_characters - 2

    def unreadable(self, word: str) -> bool:
        return False

    def files(self) -> dict[str, bytes]:
        return {}

    def _ids(self, word: str) -> list[int]:
        if word == SENTENCE_BEGIN:
            return [_BEGIN_WORD, _BEGIN_SENTENCE, _END_WORD]
        if word == SENTENCE_END:
            return [_BEGIN_WORD, _END_SENTENCE, _END_WORD]
        # "ignore" drops lone surrogates, which have no UTF-8 form.
        spelled = word.encode("utf-8", "ignore")[: self.max_characters - 2]
        return [_BEGIN_WORD, *spelled, _END_WORD]
