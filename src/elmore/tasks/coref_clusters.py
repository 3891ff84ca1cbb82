"""Clusters from links, windows of long documents, and how the clusters of windows are joined."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from elmore.tasks.readers.coref import Clusters, Document, Mention

M = TypeVar("M", bound=Hashable)


def linked(
    spans: Sequence[Mention],
    chosen: Sequence[int | None],
    scores: Sequence[float],
    threshold: float | None,
) -> Clusters:
    """Spans in the order of the text, each with its antecedent among them; a span without any link
    is a cluster of one if its mention score is above the threshold."""
    pairs = [(i, j) for i, j in enumerate(chosen) if j is not None]
    in_pairs = {i for pair in pairs for i in pair}
    alone = [
        (i,)
        for i, score in enumerate(scores)
        if threshold is not None and score > threshold and i not in in_pairs
    ]
    return tuple(tuple(spans[i] for i in cluster) for cluster in joined([*pairs, *alone]))


def joined(groups: Iterable[Sequence[M]]) -> tuple[tuple[M, ...], ...]:
    """Groups that share a member become one; members and groups are sorted."""
    parent: dict[M, M] = {}

    def root(member: M) -> M:
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    for group in groups:
        for member in group:
            parent.setdefault(member, member)
            parent[root(member)] = root(group[0])
    found: dict[M, list[M]] = {}
    for member in sorted(parent):  # type: ignore[type-var]
        found.setdefault(root(member), []).append(member)
    return tuple(tuple(group) for group in found.values())


def short_sentences(document: Document, most: int) -> Document:
    """Sentences that have more than `most` words are cut into several."""
    if all(len(sentence) <= most for sentence in document.sentences):
        return document
    cut = (s[i : i + most] for s in document.sentences for i in range(0, len(s), most))
    return replace(document, sentences=tuple(cut))


def window_bounds(document: Document, most: int, overlap: int) -> Iterator[tuple[int, int]]:
    """First sentence and the one after the last of each window: as many sentences as fit into
    `most` words. The next window begins `overlap` words before the end of the last one, or less
    where sentences are long."""
    ends = list(accumulate(map(len, document.sentences)))
    first = 0
    while True:
        begin = ends[first - 1] if first else 0
        stop = first + 1
        while stop < len(ends) and ends[stop] - begin <= most:
            stop += 1
        yield first, stop
        if stop == len(ends):
            return
        following = stop
        while following - 1 > first and ends[stop - 1] - ends[following - 2] <= overlap:
            following -= 1
        first = following


def windows(document: Document, most: int, overlap: int) -> list[Document]:
    """The document in parts; mentions that are not wholly in a part are not mentions of it."""
    if document.n_words <= most:
        return [document]
    begins = [0, *accumulate(map(len, document.sentences))]
    return [
        Document(document.name, document.sentences[a:b], _inside(document, begins[a], begins[b]))
        for a, b in window_bounds(document, most, overlap)
    ]


def _inside(document: Document, begin: int, end: int) -> Clusters:
    """Clusters of the words from `begin` up to `end`, counted from there."""
    clusters = (
        tuple((a - begin, b - begin) for a, b in cluster if begin <= a and b < end)
        for cluster in document.clusters
    )
    return tuple(filter(None, clusters))
