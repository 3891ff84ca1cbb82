"""A sample of a corpus: lines drawn at random from all of it, of which only those are tokenized.
One pass, in memory that depends on the size of the sample alone.
"""

import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.files.text_file import read_lines

Words = list[str]
SampleWatch = Callable[[int], None]
"""Told how many lines have been read."""

_WORD = 12  # characters that a word and its space take at most, on average in any language
_SHOWN_LINES = 10_000


def draw(files: SentenceFiles, n_words: int, seed: int, watch: SampleWatch) -> list[Words]:
    """Sentences of at least two words, about `n_words` words in all, or the whole corpus if it has
    fewer; in random order."""
    found: list[Words] = []
    total = 0
    lines = _drawn(_watched(files.unsplit(), watch), n_words * _WORD, seed)
    for line in lines:
        for sentence in files.split(line):
            if len(sentence) > 1:
                found.append(sentence)
                total += len(sentence)
        if total >= n_words:
            break
    if not found:
        names = ", ".join(str(path) for path in files.paths[:3])
        raise InputError(f"{names}: no sentence of two words or more; expected one per line.")
    random.Random(seed).shuffle(found)
    return found


def _drawn(lines: Iterable[str], n_characters: int, seed: int) -> list[str]:
    """Lines with the smallest of random keys, as many as have `n_characters` together; in the
    order of their keys."""
    chance = random.Random(seed)
    heap: list[tuple[float, int, str]] = []  # the largest key on top
    size, order = 0, count()
    for line in lines:
        key = chance.random()
        if size >= n_characters and -heap[0][0] <= key:
            continue
        heapq.heappush(heap, (-key, next(order), line))
        size += len(line)
        while size - len(heap[0][2]) >= n_characters:
            size -= len(heapq.heappop(heap)[2])
    return [line for _, _, line in sorted(heap, reverse=True)]


def _watched(lines: Iterable[str], watch: SampleWatch) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield line
        if number % _SHOWN_LINES == 0:
            watch(number)


def to_text(sentences: Iterable[Words]) -> str:
    """A line of JSON per sentence."""
    return "".join(json.dumps(words, ensure_ascii=False) + "\n" for words in sentences)


def from_file(path: Path) -> list[Words]:
    """What `to_text` has written to a file."""
    try:
        found = [json.loads(line) for line in read_lines(path)]
        if not all(isinstance(w, str) for words in found for w in words):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise InputError(f"{path}: damaged; remove {path.parent} to start again.") from None
    return found
