"""Build an index from a corpus, which is read twice: once to count words, once to embed sentences.
Regular commits let a stopped build continue. At the end the uses of each word are grouped.
"""

# K kept layers, n words, D vector dim
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from elmore.embedder import LayerSource
from elmore.embedding import Sentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_folder
from elmore.search.approximate import approximate, faiss, is_finished
from elmore.search.compact import compact
from elmore.search.corpus_embedding import BuildReport, BuildWatch, CorpusEmbedding
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import Manifest, ModelSource, Reading, read_manifest, write_manifest
from elmore.search.sampling import COUNTS, WORDS, WordChoice, choose_words
from elmore.search.vector_space import CENTER
from elmore.store.keep import KeepProjection, keep_of
from elmore.store.precision import PRECISIONS, Precision
from elmore.store.words import pack, packed_sentences

_SAMPLE_SENTENCES = 1000

Keeping = int | str
"""The number of a layer, "mix" for the mean of all layers, "all", or another `keep` of stores."""


def build(
    corpus: Iterable[Sentence],
    source: LayerSource,
    path: Path,
    asked: Manifest,
    words: WordChoice,
    watch: BuildWatch,
) -> None:
    """Build the index that is asked for, or continue an unfinished one with the same settings."""
    if iter(corpus) is corpus:
        raise InputError(
            "The corpus can be read only once, but a build reads it twice; pass a list, or an "
            "object that can be iterated again."
        )
    faiss()  # if it is missing, an error now and not after hours
    progress = BuildReport(watch)
    if path.exists():
        _check_same(path, asked)
    else:
        _create(corpus, source, path, asked, words, progress)
    with IndexWriter(path) as writer:
        if not writer.manifest.reading.complete:
            CorpusEmbedding(writer, source, progress).build(corpus)
        progress.enter("grouping")
        compact(writer)
        progress.enter("approximating")
        approximate(writer)
        progress.show()


# A new index --------------------------------------------------------------------------------------


def _create(
    corpus: Iterable[Sentence],
    source: LayerSource,
    path: Path,
    manifest: Manifest,
    words: WordChoice,
    progress: BuildReport,
) -> None:
    counts, sample = _count(corpus, progress)
    if not counts:
        raise InputError("The corpus has no words.")
    chosen = choose_words(counts, words)
    center = _center(source, sample, manifest, counts)
    manifest = manifest.model_copy(
        update={"listed_words": len(chosen), "reading": Reading(of=progress.now.sentences)}
    )
    with atomic_folder(path) as folder:
        (folder / WORDS).write_bytes(pack(list(chosen)))
        (folder / COUNTS).write_bytes(np.array(list(chosen.values()), np.int64).tobytes())
        (folder / CENTER).write_bytes(center.tobytes())
        write_manifest(folder, manifest)


def new_manifest(
    model: LayerSource,
    keep: Keeping,
    precision: Precision,
    *,
    any_word: bool,
    max_uses: int,
    source: ModelSource | None,
) -> Manifest:
    """The manifest of an index with these settings and without uses."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision is {precision!r}; expected {', '.join(PRECISIONS)}.")
    if max_uses < 1:
        raise ConfigError(f"max_uses is {max_uses}; expected 1 or more.")
    kept = keep_of("average" if keep == "mix" else str(keep), model.n_layers)
    assert not isinstance(kept, KeepProjection)  # no string names one
    return Manifest(
        fingerprint=model.fingerprint,
        source=source,
        n_layers=model.n_layers,
        dim=model.dim,
        keep=kept,
        precision=precision,
        any_word=any_word,
        listed_words=0,
        max_uses=max_uses,
    )


def _count(
    corpus: Iterable[Sentence], progress: BuildReport
) -> tuple[Counter[str], list[list[str]]]:
    """The count of each word, and a sample of the sentences."""
    counts: Counter[str] = Counter()
    sample: list[list[str]] = []
    chance = random.Random(0)
    now = progress.now
    for number, read in enumerate(packed_sentences(corpus)):
        counts.update(read.words)
        if len(sample) < _SAMPLE_SENTENCES:
            sample.append(read.words)
        elif (place := chance.randrange(number + 1)) < _SAMPLE_SENTENCES:
            sample[place] = read.words
        now.read = now.sentences = number + 1
        progress.show_sometimes()
    return counts, sample


def _center(
    source: LayerSource, sample: list[list[str]], manifest: Manifest, counts: Counter[str]
) -> Vectors:
    """The mean of each kept layer, (K, D); a word counts at most `max_uses` times."""
    total, weight = np.zeros(()), 0.0
    for embedding in source.stream(sample):
        shares = np.array([min(1.0, manifest.max_uses / counts[w]) for w in embedding.words])
        kept = manifest.keep.select(embedding.layers)  # (K, n, D)
        total = total + np.einsum("n,knd->kd", shares, kept, dtype=np.float64)
        weight += float(shares.sum())
    return (total / weight).astype(np.float32)


def _check_same(path: Path, asked: Manifest) -> None:
    """A build can only be continued with the same settings."""
    there = read_manifest(path)
    if there.reading.complete and len(there.segments) < 2 and is_finished(there):
        raise InputError(f"{path} is complete already; add to it, or choose another name.")
    for name in ("fingerprint", "keep", "precision", "max_uses", "any_word"):
        before, now = getattr(there, name), getattr(asked, name)
        if before != now:
            if name == "keep":
                before, now = before.described(), now.described()
            raise InputError(
                f"{path}: the stopped build has {name} {before}, not {now}; continue with the same "
                "settings, or choose another name."
            )
