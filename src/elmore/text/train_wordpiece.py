"""A WordPiece vocabulary from word counts: characters first, then the most frequent pair of pieces
is joined again and again. Ties go to the pair that sorts first, so that the same counts always give
the same vocabulary (the trainer of the `tokenizers` library does not promise that).
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

Pair = tuple[str, str]


def train_wordpiece(
    counts: Mapping[str, int],
    size: int,
    marks: Sequence[str],
    *,
    min_count: int = 2,
    max_alphabet: int = 1000,
    prefix: str = "##",
) -> list[str]:
    """At most `size` pieces: the marks, the characters, the joined pairs in the order found.
    Words with a character outside the alphabet are left out."""
    alphabet = _alphabet(counts, max_alphabet)
    words = [
        (_characters(word, prefix), counts[word])
        for word in sorted(counts)
        if word and alphabet.issuperset(word)
    ]
    found = dict.fromkeys(marks)
    found.update(dict.fromkeys(sorted({piece for pieces, _ in words for piece in pieces})))
    joiner = Joiner(words, prefix)
    while len(found) < size and (pair := joiner.join(min_count)) is not None:
        found.setdefault(joiner.joined(pair))
    return list(found)[: max(size, len(marks))]


def _alphabet(counts: Mapping[str, int], most: int) -> set[str]:
    characters: Counter[str] = Counter()
    for word, n in counts.items():
        for character in word:
            characters[character] += n
    return set(sorted(characters, key=lambda c: (-characters[c], c))[:most])


def _characters(word: str, prefix: str) -> list[str]:
    return [word[0], *(prefix + character for character in word[1:])]


class Joiner:
    """The words as pieces, and how often each pair of neighbors occurs in them. It finds byte
    pairs too, without a prefix."""

    def __init__(self, words: Sequence[tuple[list[str], int]], prefix: str):
        self.words, self.prefix = words, prefix
        self.counts: Counter[Pair] = Counter()
        self.places: defaultdict[Pair, set[int]] = defaultdict(set)
        for i, (pieces, n) in enumerate(words):
            for pair in itertools.pairwise(pieces):
                self.counts[pair] += n
                self.places[pair].add(i)
        self.queue = [(-n, pair) for pair, n in self.counts.items()]
        heapq.heapify(self.queue)

    def join(self, min_count: int) -> Pair | None:
        """The next pair that is joined; None when no pair is frequent enough."""
        while self.queue:
            n, pair = heapq.heappop(self.queue)
            if -n == self.counts[pair]:  # else an older entry
                if -n < min_count:
                    return None
                self._join(pair)
                return pair
        return None

    def joined(self, pair: Pair) -> str:
        """The piece that a pair becomes."""
        return pair[0] + pair[1].removeprefix(self.prefix)

    def _join(self, pair: Pair) -> None:
        joined = self.joined(pair)
        changed: set[Pair] = set()
        for i in self.places.pop(pair):
            pieces, n = self.words[i]
            old = Counter(itertools.pairwise(pieces))
            pieces[:] = _joined(pieces, pair, joined)
            new = Counter(itertools.pairwise(pieces))
            for other in old.keys() | new.keys():
                if old[other] != new[other]:
                    self.counts[other] += n * (new[other] - old[other])
                    changed.add(other)
                    self.places[other].add(i) if new[other] else self.places[other].discard(i)
        for other in changed:
            heapq.heappush(self.queue, (-self.counts[other], other))


def _joined(pieces: Sequence[str], pair: Pair, joined: str) -> list[str]:
    found: list[str] = []
    i = 0
    while i < len(pieces):
        if tuple(pieces[i : i + 2]) == pair:
            found.append(joined)
            i += 2
        else:
            found.append(pieces[i])
            i += 1
    return found
