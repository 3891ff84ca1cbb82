"""Add sentences to an existing index: every use of its words, each sentence once."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from elmore.embedder import LayerSource
from elmore.embedding import Sentence
from elmore.search.corpus_embedding import COMMIT_BYTES
from elmore.search.index_writer import IndexWriter
from elmore.search.sampling import read_counts
from elmore.search.vector_space import read_vector_space
from elmore.store.words import packed_sentences
from elmore.uses.use_vectors import stream_with_static


class _New(NamedTuple):
    """A sentence that is not in the index, and the positions of its indexed words."""

    words: list[str]
    packed: bytes
    positions: list[int]


def add(writer: IndexWriter, source: LayerSource, sentences: Iterable[Sentence]) -> int:
    """Add every use of indexed words in new sentences. Returns the number of new sentences."""
    space = read_vector_space(writer.folder, writer.manifest)
    pending, added = writer.pending(), 0
    for new, embedding, static in stream_with_static(
        source,
        _new(writer, sentences),
        words=lambda new: new.words,
        positions=lambda new: new.positions,
    ):
        kept = space.kept(embedding.layers[:, new.positions])  # (K, m, D)
        pending.add(new.words, new.packed, new.positions, kept, static)
        added += 1
        if pending.n_bytes >= COMMIT_BYTES:
            writer.add(pending)
            pending = writer.pending()
    writer.add(pending)
    return added


def _new(writer: IndexWriter, sentences: Iterable[Sentence]) -> Iterator[_New]:
    segments, given = writer.segments(), set[bytes]()
    listed = None if writer.manifest.any_word else read_counts(writer.folder)
    for read in packed_sentences(sentences):
        key = writer.key(read.packed)
        if read.packed in given or any(s.find(key, read.packed) for s in segments):
            continue
        given.add(read.packed)
        positions = [i for i, word in enumerate(read.words) if listed is None or word in listed]
        if positions:
            yield _New(read.words, read.packed, positions)
