"""A corpus into an index: read once to count, once to embed, and committed as it goes, so that a
build that was stopped goes on where it was. In the end the uses of each word are put together.
"""

# K kept layers, n words, D vector dim
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmore.embedder import LayerSource
from elmore.embedding import Sentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_folder
from elmore.search.approximate import approximate, faiss, is_finished
from elmore.search.compact import compact
from elmore.search.corpus_embedding import BuildReport, BuildWatch, CorpusEmbedding
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import (
    Manifest,
    ModelSource,
    Reading,
    read_manifest,
    write_manifest,
)
from elmore.search.sampling import COUNTS, WORDS, WordChoice, choose_words
from elmore.search.vector_space import CENTER
from elmore.store.keep import KeepProjection, keep_of
from elmore.store.precision import PRECISIONS, Precision
from elmore.store.words import pack, packed_sentences

_SAMPLE_SENTENCES = 1000

Keeping = int | str
"""A layer's number, "mix" for the mean of all layers, "all", or what a store calls `keep`."""


class BuildConfig(NamedTuple):
    """What is asked of a build; an index that is there must be of the same."""

    keep: Keeping
    precision: Precision
    words: WordChoice
    max_uses: int
    source: ModelSource | None


def build(
    corpus: Iterable[Sentence],
    source: LayerSource,
    path: Path,
    config: BuildConfig,
    watch: BuildWatch,
) -> None:
    """Make an index, or go on with one that was not finished."""
    if iter(corpus) is corpus:
        raise InputError(
            "The corpus can be read only once, but a build reads it twice; give a list, or an "
            "object whose __iter__ begins anew."
        )
    faiss()  # an error now, if it is missing, and not after hours
    progress = BuildReport(watch)
    if path.exists():
        _check_same(path, source, config)
    else:
        _create(corpus, source, path, config, progress)
    with IndexWriter(path) as writer:
        if not writer.manifest.reading.complete:
            CorpusEmbedding(writer, source, progress).run(corpus)
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
    config: BuildConfig,
    progress: BuildReport,
) -> None:
    manifest = _manifest(source, config)
    counts, sample = _count(corpus, progress)
    if not counts:
        raise InputError("The corpus has no words.")
    chosen = choose_words(counts, config.words)
    center = _center(source, sample, manifest, counts)
    manifest = manifest.model_copy(
        update={"listed_words": len(chosen), "reading": Reading(of=progress.now.sentences)}
    )
    with atomic_folder(path) as folder:
        (folder / WORDS).write_bytes(pack(list(chosen)))
        (folder / COUNTS).write_bytes(np.array(list(chosen.values()), np.int64).tobytes())
        (folder / CENTER).write_bytes(center.tobytes())
        write_manifest(folder, manifest)


def _manifest(source: LayerSource, config: BuildConfig) -> Manifest:
    if config.precision not in PRECISIONS:
        raise ConfigError(f"precision is {config.precision!r}; expected {', '.join(PRECISIONS)}.")
    if config.max_uses < 1:
        raise ConfigError(f"max_uses is {config.max_uses}; expected 1 or more.")
    keep = keep_of(_as_stores_say(config.keep), source.n_layers)
    assert not isinstance(keep, KeepProjection)  # no string names one
    return Manifest(
        fingerprint=source.fingerprint,
        source=config.source,
        n_layers=source.n_layers,
        dim=source.dim,
        keep=keep,
        precision=config.precision,
        any_word=config.words is None,
        listed_words=0,
        max_uses=config.max_uses,
    )


def _as_stores_say(keep: Keeping) -> str:
    return "average" if keep == "mix" else str(keep)


def _count(
    corpus: Iterable[Sentence], progress: BuildReport
) -> tuple[Counter[str], list[list[str]]]:
    """How often each word occurs, and a sample of the sentences."""
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
    """The mean of each kept layer, (K, D), a word counted at most `max_uses` times."""
    total, weight = np.zeros(()), 0.0
    for embedding in source.stream(sample):
        shares = np.array([min(1.0, manifest.max_uses / counts[w]) for w in embedding.words])
        kept = manifest.keep.select(embedding.layers)  # (K, n, D)
        total = total + np.einsum("n,knd->kd", shares, kept, dtype=np.float64)
        weight += float(shares.sum())
    return (total / weight).astype(np.float32)


def _check_same(path: Path, source: LayerSource, config: BuildConfig) -> None:
    """Going on is only possible with what the build was begun with."""
    there, asked = read_manifest(path), _manifest(source, config)
    if there.reading.complete and len(there.segments) < 2 and is_finished(there):
        raise InputError(f"{path} is complete already; add to it, or choose another name.")
    for name in ("fingerprint", "keep", "precision", "max_uses", "any_word"):
        before, now = getattr(there, name), getattr(asked, name)
        if before != now:
            if name == "keep":
                before, now = before.described(), now.described()
            raise InputError(
                f"{path}: a build that was stopped has {name} {before}, not {now}; go on with "
                "what it was begun with, or choose another name."
            )
