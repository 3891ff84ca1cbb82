"""Sentences into an index that is there: every use of the words it has, each sentence once."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from elmore.embedder import Embedder
from elmore.embedding import Sentence
from elmore.search.build import COMMIT_BYTES
from elmore.search.sampling import read_counts
from elmore.search.vector_space import read_vector_space
from elmore.search.writer import Writer
from elmore.store.words import Read, read_all


def add(writer: Writer, embedder: Embedder, sentences: Iterable[Sentence]) -> int:
    """Every use of the indexed words in sentences that are new; how many sentences that were."""
    space = read_vector_space(writer.folder, writer.manifest)
    listed = None if writer.manifest.any_word else read_counts(writer.folder)
    pending, added = writer.pending(), 0
    ahead: deque[Read] = deque()
    for embedding in embedder.stream(_new(writer, sentences, ahead)):
        read = ahead.popleft()
        positions = [i for i, word in enumerate(read.words) if listed is None or word in listed]
        if positions:
            layers = embedding.layers[:, positions]
            pending.add(read.words, read.packed, positions, space.kept(layers), layers[0])
            added += 1
        if pending.n_bytes >= COMMIT_BYTES:
            writer.add(pending)
            pending = writer.pending()
    writer.add(pending)
    return added


def _new(
    writer: Writer, sentences: Iterable[Sentence], ahead: deque[Read]
) -> Iterator[Sequence[str]]:
    segments, given = writer.segments(), set[bytes]()
    for read in read_all(sentences):
        key = writer.key(read.packed)
        if read.packed in given or any(s.find(key, read.packed) for s in segments):
            continue
        given.add(read.packed)
        ahead.append(read)
        yield read.words
