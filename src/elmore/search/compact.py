"""Merge segments into one: the uses of a word are side by side again, each sentence is stored once,
and deleted sentences are removed. Vectors are copied as they are, some thousands at a time.
"""

# K kept layers, n uses, D vector dim, S sentences
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.search.checked_files import Ints
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import SegmentState
from elmore.search.origins import merged
from elmore.search.segment import Segment, Table, write_segment
from elmore.store.precision import Stored

_CHUNK = 16_384
_ALL = slice(None)


class _Uses(NamedTuple):
    """Uses of several segments in one table, all (n,)."""

    word: Ints
    sentence: Ints
    position: Ints
    segment: Ints
    row: Ints

    def take(self, places: Ints | NDArray[np.bool_]) -> "_Uses":
        return _Uses(*(column[places] for column in self))


def compact(writer: IndexWriter) -> None:
    """Merge all segments if needed, also one without checksums; the approximate indexes of the old
    one are removed."""
    states = writer.manifest.segments
    if len(states) < 2 and not any(state.deleted or state.checksums is None for state in states):
        return
    merged = merge(writer.segments(), writer.next_segment())
    writer.commit(
        segments=() if merged is None else (merged,),
        next_segment=writer.manifest.next_segment + 1,
        approximate=None,
        approximate_files={},
    )


def merge(segments: Sequence[Segment], target: Path) -> SegmentState | None:
    """A new segment of all that is not deleted; None if everything is."""
    words = sorted({word for segment in segments for word in segment.words})
    uses = _live(segments, words)
    if not len(uses.word):
        return None
    keys = np.concatenate([segment.keys[_ALL] for segment in segments])
    starts = np.cumsum([0, *(segment.state.sentences for segment in segments)])
    uses = uses._replace(sentence=_first_alike(segments, starts, keys)[uses.sentence])
    uses = uses.take(np.lexsort((uses.position, uses.sentence, uses.word)))
    uses = uses.take(_changes(uses.word, uses.sentence, uses.position))
    sentences, sentence = np.unique(uses.sentence, return_inverse=True)
    numbers, first, word = np.unique(uses.word, return_index=True, return_inverse=True)
    kept = [words[number] for number in numbers]
    homes = uses.segment[first]  # a segment that knows the word
    static = [segments[home].static_vector(w) for home, w in zip(homes, kept, strict=True)]
    table = Table(
        words=kept,
        word=word,
        sentence=sentence,
        position=uses.position,
        keys=keys[sentences],
        static=np.stack(static).astype(np.float16),
        origins=merged([segment.origins for segment in segments], starts, sentences),
    )
    texts = (_text(segments, starts, number) for number in sentences.tolist())
    return write_segment(target, table, texts, _blocks(segments, uses))


def _live(segments: Sequence[Segment], words: list[str]) -> _Uses:
    """All uses that are not deleted; sentences are numbered across segments."""
    number = {word: i for i, word in enumerate(words)}
    parts, start = [], 0
    for i, segment in enumerate(segments):
        ours = np.array([number[word] for word in segment.words], np.int64)
        sentence, position = segment.sentences_of(_ALL), segment.uses[_ALL][:, 1].astype(np.int64)
        part = _Uses(
            word=np.repeat(ours, np.diff(segment.groups)),
            sentence=sentence + start,
            position=position,
            segment=np.full(len(sentence), i, np.int64),
            row=np.arange(len(sentence)),
        )
        parts.append(part if segment.live is None else part.take(segment.live[sentence]))
        start += segment.state.sentences
    return _Uses(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _first_alike(segments: Sequence[Segment], starts: Ints, keys: NDArray[np.uint64]) -> Ints:
    """For each sentence, the first one with the same words. Equal hashes are not trusted: the words
    are compared."""
    same = np.arange(len(keys))
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    first: dict[bytes, int] = {}
    for sentence in np.flatnonzero(counts[inverse] > 1).tolist():
        same[sentence] = first.setdefault(_text(segments, starts, sentence), sentence)
    return same


def _changes(*columns: Ints) -> NDArray[np.bool_]:
    """True where a row differs from the one before it."""
    differs = np.ones(len(columns[0]), np.bool_)
    differs[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return differs


def _text(segments: Sequence[Segment], starts: Ints, sentence: int) -> bytes:
    home = int(np.searchsorted(starts, sentence, side="right")) - 1
    return segments[home].packed(sentence - int(starts[home]))


def _blocks(segments: Sequence[Segment], uses: _Uses) -> Iterator[Stored]:
    for begin in range(0, len(uses.row), _CHUNK):
        home, row = uses.segment[begin : begin + _CHUNK], uses.row[begin : begin + _CHUNK]
        order = np.argsort(home, kind="stable")
        parts = [segments[i].stored(row[order][home[order] == i]) for i in np.unique(home)]
        back = np.argsort(order)
        values = np.concatenate([part.values for part in parts], axis=1)[:, back]  # (K, m, D)
        scales = [part.scales for part in parts if part.scales is not None]
        yield Stored(values, np.concatenate(scales, axis=1)[:, back] if scales else None)
