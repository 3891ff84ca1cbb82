"""Words without context as word2vec text, which gensim, GloVe's readers and elmore itself read: a
line with both sizes, then a word and its numbers per line.
"""

# V words, D vector dim
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from elmore.embedder import LayerSource
from elmore.errors import InputError
from elmore.files.atomic import atomic_file
from elmore.models.static import write_word2vec

_TOGETHER = 4096


def distinct_words(sentences: Iterable[Sequence[str]], most: int | None = None) -> list[str]:
    """Most frequent first; words that are equally frequent in the order of the text."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return [word for word, _ in counts.most_common(most)]


def write_static(
    source: LayerSource,
    words: Sequence[str],
    target: Path,
    watch: Callable[[int], None] = lambda _: None,
) -> None:
    """The vector of each word on its own."""
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    if not words:
        raise InputError("There are no words to export.")
    for word in words:
        if not word or word.split() != [word] or "\ufeff" in word:
            raise InputError(f"{word!r:.60} cannot be written: it is empty or contains a space.")

    def rows() -> Iterator[tuple[str, Any]]:
        for start in range(0, len(words), _TOGETHER):
            some = words[start : start + _TOGETHER]
            yield from zip(some, source.static([[w] for w in some]), strict=True)
            watch(start + len(some))

    with atomic_file(target) as beside:
        write_word2vec(beside, rows(), len(words), source.dim)
