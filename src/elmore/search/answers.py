"""The answers of an index: neighbors, senses, maps."""

# n uses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.html import heat_cell, html_cell, html_table, marked_words
from elmore.uses.use import Use


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A use and its similarity: the cosine of the centered vectors."""

    use: Use
    score: float


class Neighbors(list[Neighbor]):
    """Uses, the most similar first: a list that shows itself as a table in a notebook."""

    def _repr_html_(self) -> str:
        rows = [[heat_cell(n.score), marked_words(n.use.words, n.use.position)] for n in self]
        head = [html_cell("cosine", head=True), html_cell("nearest uses", head=True)]
        return html_table([head, *rows])


@dataclass(frozen=True, slots=True)
class StaticNeighbor:
    """A word and its similarity without context."""

    word: str
    score: float


@dataclass(frozen=True, slots=True)
class Sense:
    """A cluster of uses of a word."""

    size: int
    typical: tuple[Use, ...]
    """The uses nearest to the center, each in a different sentence."""
    characteristic: tuple[str, ...]
    """Words that are more frequent in these sentences than in those of the other senses."""


@dataclass(frozen=True, slots=True)
class Senses:
    """The senses of a word in a corpus, the most frequent one first."""

    word: str
    n_uses: int
    senses: tuple[Sense, ...]
    separation: float
    """The silhouette of the senses, from -1 to 1; 0 if there is only one."""

    def _repr_html_(self) -> str:
        """For notebooks: each sense with its words and its typical uses."""
        rows = []
        for number, sense in enumerate(self.senses, start=1):
            about = f"{sense.size / max(1, self.n_uses):.0%} of {self.n_uses:,} uses"
            told = ", ".join(sense.characteristic)
            name = html_cell(f"{self.word} {number}", head=True)
            rows.append([name, html_cell(f"{about}: {told}" if told else about)])
            rows += [[html_cell(""), marked_words(u.words, u.position)] for u in sense.typical]
        return html_table(rows)


@dataclass(frozen=True, slots=True, eq=False)
class WordMap:
    """All uses of a word as points in the plane."""

    word: str
    uses: tuple[Use, ...]
    points: NDArray[np.float32]  # (n, 2)
    senses: NDArray[np.int64]  # (n,), positions in `Senses.senses`
