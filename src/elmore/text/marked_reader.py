"""How a GPT reads what it is to judge: a text between two marks, or a pair with a third between
them. The marks are new pieces, after all those of the vocabulary.

    start a classify            start a delimiter b classify
"""

# B inputs, T positions in the longest
from collections.abc import Sequence

from elmore.text.causal_reader import padded
from elmore.text.reader import Input, IntArray, Pair, Words
from elmore.text.subwords import Subwords

N_MARKS = 3


class MarkedReader:
    """Rows that end with the mark at which a label is predicted."""

    def __init__(self, subwords: Subwords, max_positions: int):
        self.subwords, self.max_positions = subwords, max_positions
        self.start, self.delimiter, self.classify = range(len(subwords), len(subwords) + N_MARKS)

    def read(self, inputs: Sequence[Input]) -> tuple[IntArray, IntArray]:
        """ids (B, T) and lengths (B,). What is too long loses its end; of a pair that is too long
        each text keeps half of the places, or what the other leaves."""
        return padded([self._row(item) for item in inputs])

    def length(self, item: Input) -> int:
        """Positions that it takes if nothing is cut."""
        if isinstance(item, Pair):
            return len(self._ids(item.first)) + len(self._ids(item.second)) + N_MARKS
        return len(self._ids(item)) + N_MARKS - 1

    def _row(self, item: Input) -> list[int]:
        if not isinstance(item, Pair):
            room = self.max_positions - N_MARKS + 1
            return [self.start, *self._ids(item)[:room], self.classify]
        first, second = self._ids(item.first), self._ids(item.second)
        room = self.max_positions - N_MARKS
        first = first[: max(room // 2, room - len(second))]
        second = second[: room - len(first)]
        return [self.start, *first, self.delimiter, *second, self.classify]

    def _ids(self, words: Words) -> list[int]:
        return [i for word in self.subwords.pieces(words) for i in word]
