"""Build an index from a corpus, which is read twice: once to count words, once to embed sentences.
Regular commits let a stopped build continue. At the end the uses of each word are grouped.
"""

# K kept layers, n words, D vector dim
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np

from elmore.embedder import LayerSource, lens_of
from elmore.embedding import Layers, LayersAndMeaning, Sentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_folder
from elmore.models.lens import MEANING
from elmore.search.approximate import approximate, faiss, is_finished
from elmore.search.compact import compact
from elmore.search.corpus_embedding import BuildReport, BuildWatch, CorpusEmbedding
from elmore.search.index_writer import IndexWriter, small_files
from elmore.search.manifest import (
    Manifest,
    ModelSource,
    Reading,
    read_manifest,
    write_manifest,
)
from elmore.search.sampling import COUNTS, WORDS, WordChoice, choose_words, pieces
from elmore.search.vector_space import CENTER
from elmore.store.keep import KeepProjection, keep_of
from elmore.store.precision import PRECISIONS, Precision
from elmore.store.words import pack

_SAMPLE_SENTENCES = 1000
_SAMPLE_WORDS = 200_000

Keeping = int | str
"""The number of a layer, "mix" for the mean of all layers, "meaning" for the vectors of the model's
lens, "all", or another `keep` of stores."""


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
        _check_corpus(path, corpus, progress)
    else:
        _create(corpus, source, path, asked, words, progress)
    with IndexWriter(path) as writer:
        if not writer.manifest.reading.complete:
            CorpusEmbedding(writer, source, progress).build(corpus)
        progress.enter("grouping")
        compact(writer)
        progress.enter("approximating")
        approximate(writer)
        writer.commit(finished=True)
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
    counts, sample, crc = _count(corpus, progress)
    if not counts:
        raise InputError("The corpus has no words.")
    chosen = choose_words(counts, words)
    center = _center(source, sample, manifest, counts, progress)
    reading = Reading(of=progress.now.sentences, whole_crc32=crc)
    manifest = manifest.model_copy(update={"listed_words": len(chosen), "reading": reading})
    with atomic_folder(path) as folder:
        (folder / WORDS).write_bytes(pack(list(chosen)))
        (folder / COUNTS).write_bytes(np.array(list(chosen.values()), np.int64).tobytes())
        (folder / CENTER).write_bytes(center.tobytes())
        write_manifest(folder, manifest.model_copy(update={"files": small_files(folder)}))


def new_manifest(
    model: LayerSource,
    keep: Keeping | None,
    precision: Precision,
    *,
    words: WordChoice,
    max_uses: int,
    source: ModelSource | None,
) -> Manifest:
    """The manifest of an index with these settings and without uses."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision is {precision!r}; expected {', '.join(PRECISIONS)}.")
    if max_uses < 1:
        raise ConfigError(f"max_uses is {max_uses}; expected 1 or more.")
    lens = lens_of(model)
    if keep is None:
        keep = "mix" if lens is None else MEANING
    kept = keep_of("average" if keep == "mix" else str(keep), model.n_layers, lens)
    if keep == "all" and lens is not None and isinstance(kept, Layers):
        kept = LayersAndMeaning(numbers=kept.numbers, lens=lens.digest)
    assert not isinstance(kept, KeepProjection)  # no string names one
    return Manifest(
        fingerprint=model.fingerprint,
        source=source,
        n_layers=model.n_layers,
        dim=model.dim,
        keep=kept,
        precision=precision,
        any_word=words is None,
        listed_words=0,
        chosen=_described(words),
        max_uses=max_uses,
    )


def _count(
    corpus: Iterable[Sentence], progress: BuildReport
) -> tuple[Counter[str], list[list[str]], int]:
    """The count of each word, a sample of the sentences, and the checksum of all."""
    counts: Counter[str] = Counter()
    sample: list[list[str]] = []
    chance = random.Random(0)
    now, crc = progress.now, 0
    for number, read in enumerate(pieces(corpus)):
        counts.update(read.words)
        crc = zlib.crc32(read.packed, crc)
        if len(sample) < _SAMPLE_SENTENCES:
            sample.append(read.words)
        elif (place := chance.randrange(number + 1)) < _SAMPLE_SENTENCES:
            sample[place] = read.words
        now.read = now.sentences = number + 1
        progress.show_sometimes()
    return counts, sample, crc


def _center(
    source: LayerSource,
    sample: list[list[str]],
    manifest: Manifest,
    counts: Counter[str],
    progress: BuildReport,
) -> Vectors:
    """The mean of each kept layer, (K, D); a word counts at most `max_uses` times."""
    total, weight = np.zeros(()), 0.0
    progress.enter("averaging")
    for embedding in source.stream(_first_words(sample)):
        shares = np.array([min(1.0, manifest.max_uses / counts[w]) for w in embedding.words])
        kept = manifest.keep.select(embedding.layers, embedding.lens)  # (K, n, D)
        total = total + np.einsum("n,knd->kd", shares, kept, dtype=np.float64)
        weight += float(shares.sum())
        progress.show_sometimes()
    return (total / weight).astype(np.float32)


def _first_words(sample: list[list[str]]) -> Iterator[list[str]]:
    """The sample, or less if its sentences are very long."""
    n_words = 0
    for words in sample:
        if n_words < _SAMPLE_WORDS:
            yield words
        n_words += len(words)


def _described(words: WordChoice) -> str:
    match words:
        case None:
            return "all words"
        case int():
            return f"the {words:,} most frequent words"
        case _:
            digest = sha256(pack(sorted(words))).hexdigest()
            return f"a list of {len(words):,} words ({digest[:16]})"


# An unfinished index ------------------------------------------------------------------------------


def _check_same(path: Path, asked: Manifest) -> None:
    """A build can only be continued with the same settings."""
    there = read_manifest(path)
    grouped = there.reading.complete and len(there.segments) < 2 and is_finished(there)
    if there.finished or (there.version < 3 and grouped):
        raise InputError(
            f"{path} is complete already; add to it (--add), replace it (--force), or choose "
            "another name."
        )
    settings = {
        "fingerprint": (there.fingerprint, asked.fingerprint),
        "keep": (there.keep.described(), asked.keep.described()),
        "precision": (there.precision, asked.precision),
        "max_uses": (there.max_uses, asked.max_uses),
        "any_word": (there.any_word, asked.any_word),
        "words": (there.chosen or asked.chosen, asked.chosen),
    }
    for name, (before, now) in settings.items():
        if before != now:
            raise InputError(
                f"{path}: the stopped build has {name} {before}, not {now}; continue with the same "
                "settings, or remove it to start again."
            )


def _check_corpus(path: Path, corpus: Iterable[Sentence], progress: BuildReport) -> None:
    """A build can only be continued with the same corpus."""
    reading, number, crc, prefix = read_manifest(path).reading, 0, 0, 0
    progress.enter("comparing")
    for number, read in enumerate(pieces(corpus), start=1):
        crc = zlib.crc32(read.packed, crc)
        prefix = crc if number == reading.sentences else prefix
        progress.now.read = number
        progress.show_sometimes()
    if number < reading.sentences or prefix != reading.crc32:
        raise InputError(
            f"{path}: the build was stopped after {reading.sentences:,} sentences, and this corpus "
            "does not start with them; use the same corpus."
        )
    if reading.whole_crc32 not in (None, crc):
        raise InputError(f"{path}: this is not the corpus of the stopped build; use the same one.")
