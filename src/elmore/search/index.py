"""The index: every use of every word of a corpus, to be asked which others are like it.

index = Index.build(sentences, embedder, "wiki.index", words=20_000)
index.neighbors("We sat on the bank of the river .".split(), position=4)
index.senses("bank")
"""

# L layers, n uses, D vector dim
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmore.embedder import Embedder
from elmore.embedding import Layers, Sentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.models.static import StaticVectors
from elmore.search import build
from elmore.search.add import add
from elmore.search.answers import Neighbor, Sense, Senses, StaticNeighbor, WordMap
from elmore.search.approximate import Approximate, approximate
from elmore.search.build import BuildConfig, Keeping, Watch
from elmore.search.compact import compact
from elmore.search.manifest import Manifest, ModelSource, read_manifest
from elmore.search.nearest import Hit, nearest, nearest_in_word
from elmore.search.sampling import WordChoice, read_counts
from elmore.search.senses import characteristic
from elmore.search.vector_space import Layer, read_vector_space
from elmore.search.writer import Writer, open_segments
from elmore.store.precision import Precision
from elmore.store.words import read_all, read_sentence
from elmore.uses.clusters import Clusters, cluster
from elmore.uses.geometry import centered, plane, unit
from elmore.uses.use import Use

_ATTEMPTS = 10
_CANDIDATES = 200


class Index:
    """Uses on disk, as the last look at the folder found them. Many readers, one writer."""

    def __init__(self, path: Path, manifest: Manifest, embedder: Embedder | None = None):
        self.path, self.manifest, self.embedder = path, manifest, embedder
        self._segments = open_segments(path, manifest)
        self._space = read_vector_space(path, manifest)
        self._starts = np.cumsum([0, *(segment.state.uses for segment in self._segments)])
        self._approximate = (
            None
            if manifest.approximate is None
            else Approximate(path / manifest.approximate, manifest.n_kept)
        )

    @classmethod
    def build(
        cls,
        corpus: Iterable[Sentence],
        embedder: Embedder,
        path: str | Path,
        *,
        keep: Keeping = "mix",
        words: WordChoice = None,
        max_uses: int = 200,
        precision: Precision = "int8",
        source: ModelSource | None = None,
        progress: Watch = lambda _: None,
    ) -> "Index":
        """Of all words, the most frequent ones, or those listed. If it is stopped, the same call
        goes on. `source` is for those who will open the index without its model."""
        config = BuildConfig(keep, precision, words, max_uses, source)
        build.build(corpus, embedder, Path(path), config, progress)
        return cls.open(path, embedder)

    @classmethod
    def open(cls, path: str | Path, embedder: Embedder | None = None) -> "Index":
        """An existing index; with its model it can be asked about new sentences."""
        for _ in range(_ATTEMPTS):
            manifest = read_manifest(Path(path))
            try:
                index = cls(Path(path), manifest)
            except FileNotFoundError:  # a writer may have merged segments between two looks
                continue
            if embedder is not None:
                index.check_model(embedder)
                index.embedder = embedder
            return index
        raise InputError(f"{path}: a part that its manifest names is missing; build it again.")

    def refresh(self) -> None:
        """See what has been committed since."""
        fresh = Index.open(self.path)
        fresh.embedder = self.embedder
        self.__dict__ = fresh.__dict__

    # What it is ---------------------------------------------------------------------------------

    @property
    def n_uses(self) -> int:
        """Those of deleted sentences are counted until the index is compacted."""
        return sum(segment.state.uses for segment in self._segments)

    @property
    def n_sentences(self) -> int:
        return sum(segment.state.sentences for segment in self._segments)

    @cached_property
    def words(self) -> list[str]:
        """Every word that has uses, in alphabetical order."""
        return sorted({word for segment in self._segments for word in segment.live_words})

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers that `layer` may be, besides "mix"."""
        keep = self.manifest.keep
        return keep.numbers if isinstance(keep, Layers) else ()

    def __contains__(self, word: str) -> bool:
        return any(word in segment for segment in self._segments)

    def uses(self, word: str) -> list[Use]:
        """All uses of a word."""
        return [
            self._use(Hit(0.0, i, row))
            for i, segment in enumerate(self._segments)
            for row in segment.rows(self._known(word)).tolist()
        ]

    # Neighbours ---------------------------------------------------------------------------------

    def neighbors(
        self,
        sentence: Sentence,
        position: int,
        k: int = 10,
        *,
        layer: Layer = "mix",
        same_word: bool = True,
        distinct: bool = True,
        embedder: Embedder | None = None,
    ) -> list[Neighbor]:
        """The uses most like this one: of the same word, or of any.

        With `distinct` every sentence is named once; the sentence asked about never is.
        """
        words = read_sentence(sentence).words
        if not 0 <= position < len(words):
            raise InputError(
                f"position is {position}, but the sentence has the words 0 to {len(words) - 1}."
            )
        word = self._known(words[position]) if same_word else None
        layers = self._model(embedder).embed([words])[0].layers[:, position]  # (L, D)
        return self.neighbors_of(layers, word, k, layer=layer, distinct=distinct, without=[words])

    def neighbors_of(
        self,
        vectors: Vectors,
        word: str | None = None,
        k: int = 10,
        *,
        layer: Layer = "mix",
        distinct: bool = True,
        without: Sequence[Sentence] = (),
    ) -> list[Neighbor]:
        """The same of a word's layers, (L, D), as the model gives them. With a word, among its
        uses; sentences in `without` are passed over."""
        if k < 1:
            raise ConfigError(f"k is {k}; expected 1 or more.")
        query = self._space.query(np.asarray(vectors, np.float32), layer)
        passed = {read.packed for read in read_all(without)}
        if word is not None:
            hits = nearest_in_word(self._segments, query, self._known(word))
            return list(self._chosen(hits, k, passed, distinct))
        n = max(_CANDIDATES, 4 * k)
        while True:
            n = min(n, self.n_uses)
            hits = nearest(self._segments, self._approximate, query, n)
            found = list(self._chosen(hits, k, passed, distinct))
            if len(found) == k or n == self.n_uses:
                return found
            n *= 4

    def static_neighbors(
        self, word: str, k: int = 10, vectors: StaticVectors | None = None
    ) -> list[StaticNeighbor]:
        """Indexed words whose context-free vectors are most like this word's: layer 0 of the
        model, or vectors from elsewhere."""
        known = self._known(word)
        names, table = self._static if vectors is None else _looked_up(self.words, vectors)
        if known not in names:
            return []
        scores = np.clip(table @ table[names[known]], -1, 1)
        order = [i for i in np.argsort(-scores, kind="stable")[: k + 1] if i != names[known]]
        listed = list(names)
        return [StaticNeighbor(listed[i], float(scores[i])) for i in order[:k]]

    @cached_property
    def _static(self) -> tuple[dict[str, int], Vectors]:
        """Every word's place, and vectors of length one, (W, D)."""
        names: dict[str, int] = {}
        parts = []
        for segment in self._segments:
            new = [word for word in segment.live_words if word not in names]
            names.update(zip(new, count(len(names)), strict=False))
            parts += [segment.static_vector(word) for word in new]
        table = np.stack(parts) if parts else np.zeros((0, self.manifest.dim), np.float32)
        return names, unit(centered(table, np.float32))

    # Senses -------------------------------------------------------------------------------------

    def senses(
        self, word: str, *, layer: Layer = "mix", typical: int = 3, words: int = 8
    ) -> Senses:
        """What the word means here; each sense with some typical uses and characteristic words."""
        return self._senses(self._grouped(word, layer), typical, words)

    def map(self, word: str, layer: Layer = "mix") -> WordMap:
        """All uses of a word in the plane, each with its sense."""
        return _map(self._grouped(word, layer))

    def senses_and_map(
        self, word: str, *, layer: Layer = "mix", typical: int = 3, words: int = 8
    ) -> tuple[Senses, WordMap]:
        """Both, with the uses grouped once."""
        grouped = self._grouped(word, layer)
        return self._senses(grouped, typical, words), _map(grouped)

    def _grouped(self, word: str, layer: Layer) -> "_Grouped":
        uses, vectors = self._vectors(word, layer)
        return _Grouped(self._known(word), uses, vectors, cluster(vectors))

    def _senses(self, grouped: "_Grouped", typical: int, words: int) -> Senses:
        word, uses, vectors, clusters = grouped
        near = np.einsum("nd,nd->n", vectors, clusters.centers[clusters.labels])  # (n,)
        senses = []
        for i in range(len(clusters.centers)):
            ours = np.flatnonzero(clusters.labels == i)
            others = [uses[j] for j in np.flatnonzero(clusters.labels != i)]
            middle = [uses[j] for j in ours[np.argsort(-near[ours], kind="stable")]]
            told = characteristic(middle, others, self._counts, words)
            senses.append(Sense(len(ours), _distinct(middle, typical), told))
        return Senses(word, len(uses), tuple(senses), clusters.separation)

    @cached_property
    def _counts(self) -> dict[str, int]:
        return read_counts(self.path)

    def _vectors(self, word: str, layer: Layer) -> tuple[list[Use], Vectors]:
        """All uses of a word and their vectors, (n, D)."""
        weights, known = self._space.weights(layer), self._known(word)
        parts = [segment.vectors(segment.rows(known), weights) for segment in self._segments]
        return self.uses(known), unit(np.concatenate(parts))

    # Writing ------------------------------------------------------------------------------------

    def add(self, sentences: Iterable[Sentence], *, embedder: Embedder | None = None) -> int:
        """All uses of indexed words in new sentences, however many the words have already; how
        many sentences were new."""
        model = self._model(embedder)
        try:
            with Writer(self.path) as writer:
                return add(writer, model, sentences)
        finally:
            self.refresh()

    def delete(self, sentences: Iterable[Sentence]) -> int:
        """Forget sentences with all their uses; how many of them were there."""
        wanted = {read.packed for read in read_all(sentences)}
        deleted = 0
        with Writer(self.path) as writer:
            for i, segment in enumerate(writer.segments()):
                found = [n for packed in wanted for n in segment.find(writer.key(packed), packed)]
                if found:
                    writer.delete(i, found)
                deleted += len(found)
        self.refresh()
        return deleted

    def compact(self) -> None:
        """Put the uses of each word together again and let go of what is deleted."""
        with Writer(self.path) as writer:
            compact(writer)
            approximate(writer)
        self.refresh()

    def check_model(self, embedder: Embedder) -> None:
        """Refuse another model than the one these vectors come from."""
        ours = self.manifest.fingerprint
        if embedder.fingerprint != ours:
            raise InputError(
                f"{self.path}: holds vectors of the model {ours[:12]}, but the model given is "
                f"{embedder.fingerprint[:12]}; use that model with the same precision, or another "
                "index."
            )

    # Small things -------------------------------------------------------------------------------

    def _model(self, embedder: Embedder | None) -> Embedder:
        if embedder is not None:
            self.check_model(embedder)
            return embedder
        if self.embedder is None:
            raise ConfigError(f"{self.path}: opened without its model; open it with one.")
        return self.embedder

    def _known(self, word: str) -> str:
        """As it is indexed: as written, or else in lower case."""
        for spelling in (word, word.lower()):
            if spelling in self:
                return spelling
        near = get_close_matches(word, self.words, n=3)
        hint = f" (near it: {', '.join(near)})" if near else ""
        raise InputError(f"{word!r} is not an indexed word of {self.path}{hint}.")

    def _chosen(
        self, hits: list[Hit], k: int, passed: set[bytes], distinct: bool
    ) -> Iterator[Neighbor]:
        seen = set(passed)
        for hit in hits:
            segment = self._segments[hit.segment]
            packed = segment.packed(int(segment.uses[hit.row, 0]))
            if packed in seen:
                continue
            if distinct:
                seen.add(packed)
            yield Neighbor(self._use(hit), hit.score)
            k -= 1
            if not k:
                return

    def _use(self, hit: Hit) -> Use:
        segment = self._segments[hit.segment]
        sentence, position = segment.uses[hit.row].tolist()
        number = int(self._starts[hit.segment]) + hit.row
        return Use(segment.sentence(sentence), position, id=number)


class _Grouped(NamedTuple):
    """A word's uses, told apart."""

    word: str
    uses: list[Use]
    vectors: Vectors  # (n, D)
    clusters: Clusters


def _map(grouped: _Grouped) -> WordMap:
    points = plane(grouped.vectors)
    return WordMap(grouped.word, tuple(grouped.uses), points, grouped.clusters.labels)


def _distinct(uses: Sequence[Use], n: int) -> tuple[Use, ...]:
    """The first n in sentences of their own."""
    first: dict[tuple[str, ...], Use] = {}
    for use in uses:
        first.setdefault(use.words, use)
    return tuple(first.values())[:n]


def _looked_up(words: list[str], vectors: StaticVectors) -> tuple[dict[str, int], Vectors]:
    found = [(word, row) for word in words if (row := vectors.row(word)) is not None]
    table = vectors.vectors[[row for _, row in found]].astype(np.float32)
    return {word: i for i, (word, _) in enumerate(found)}, unit(table)
