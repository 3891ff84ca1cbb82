"""The size of a store of a text, for every choice, before anything is computed: the text is read
and its distinct sentences are counted; the rest is arithmetic.
"""

# L layers, D vector dim
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from elmore.embedding import Sentence
from elmore.store import hash_table
from elmore.store.layout import RECORD_BYTES
from elmore.store.precision import PRECISIONS, Codec
from elmore.store.words import Keys, packed_sentences

HDF5_DATASET_BYTES = 376
"""What HDF5 adds to the numbers of a dataset: header, name, part of the tree (measured)."""
PROJECTED = 256
_NPY_HEADER = 128


@dataclass(slots=True)
class Counts:
    """The sentences and words of a text, all and distinct ones."""

    sentences: int = 0
    words: int = 0
    distinct_sentences: int = 0
    distinct_words: int = 0
    text_bytes: int = 0
    """Of the distinct sentences' words."""
    lengths: Counter[int] = field(default_factory=Counter)
    """The number of distinct sentences per number of words."""


@dataclass(frozen=True, slots=True)
class Size:
    """A choice and its size."""

    keep: str
    precision: str
    bytes: int
    word_bytes: int
    """Only the vectors of a word."""


def count(sentences: Iterable[Sentence]) -> Counts:
    """Read a text. It takes 20 bytes of memory per sentence."""
    keys, hashes = Keys(""), array("Q")
    lengths, sizes = array("I"), array("Q")
    for read in packed_sentences(sentences):
        hashes.append(int.from_bytes(keys.of(read.packed)[:8], "little"))
        lengths.append(len(read.words))
        sizes.append(len(read.packed))
    _, first = np.unique(np.asarray(hashes), return_index=True)
    distinct = np.asarray(lengths)[first]
    return Counts(
        sentences=len(lengths),
        words=sum(lengths),
        distinct_sentences=len(first),
        distinct_words=int(distinct.sum()),
        text_bytes=int(np.asarray(sizes)[first].sum()),
        lengths=Counter(distinct.tolist()),
    )


def hdf5_bytes(counts: Counts, n_layers: int, dim: int) -> int:
    """AllenNLP's cache: float32, all layers, repeated sentences stored repeatedly."""
    return counts.words * n_layers * dim * 4 + counts.sentences * HDF5_DATASET_BYTES


def store_bytes(counts: Counts, codec: Codec) -> int:
    """A store's vectors, words, records and index, without the manifest (a few hundred bytes)."""
    vectors = sum(codec.n_bytes(n_words) * n for n_words, n in counts.lengths.items())
    slots = hash_table.slots_for(counts.distinct_sentences)
    records = counts.distinct_sentences * RECORD_BYTES
    return vectors + counts.text_bytes + records + slots * hash_table.SLOT_BYTES


def plan(counts: Counts, n_layers: int, dim: int, projected: int = PROJECTED) -> list[Size]:
    """Every choice, the largest first."""
    kept: dict[str, tuple[int, int]] = {
        f"all {n_layers} layers": (n_layers, dim),
        **({f"{n_layers - 1} layers": (n_layers - 1, dim)} if n_layers > 2 else {}),
        "one layer, average or mix": (1, dim),
        **({f"projection to {projected}": (1, projected)} if projected < n_layers * dim else {}),
    }
    sizes = []
    for name, shape in kept.items():
        beside = _NPY_HEADER + (projected + 1) * n_layers * dim * 4 if "projection" in name else 0
        for precision in PRECISIONS:
            codec = Codec(precision, *shape)
            n_bytes = store_bytes(counts, codec) + beside
            sizes.append(Size(name, precision, n_bytes, codec.word_bytes))
    return sizes
