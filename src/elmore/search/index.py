"""The index: the uses of the words of a corpus, and a search for the uses most similar to another.

index = Index.build(sentences, embedder, "wiki.index", words=20_000)
index.neighbors("We sat on the bank of the river .".split(), position=4)
index.senses("bank")
"""

# L layers, D vector dim
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from elmore.embedder import LayerSource, lens_of
from elmore.embedding import Meaning, Sentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.models.static import StaticVectors
from elmore.search import build
from elmore.search.answers import Neighbors, Senses, StaticNeighbor, WordMap
from elmore.search.approximate import approximate
from elmore.search.build import Keeping
from elmore.search.compact import compact
from elmore.search.corpus_embedding import BuildReport, BuildWatch, CorpusEmbedding
from elmore.search.index_snapshot import IndexSnapshot
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import Manifest, ModelSource
from elmore.search.sampling import WordChoice, pieces
from elmore.search.senses import clustered_uses
from elmore.search.vector_space import Layer, numbers_of, searchable
from elmore.search.verify import IndexVerdict, verify
from elmore.store.precision import Precision
from elmore.store.store import check_lens, check_model
from elmore.store.words import packed_sentence
from elmore.uses.clusters import cluster
from elmore.uses.use import Surroundings, Use


class Index:
    """Uses on disk, as of opening or the last `refresh`. Many readers, one writer."""

    def __init__(self, snapshot: IndexSnapshot, embedder: LayerSource | None = None):
        self._snapshot, self.embedder, self.path = snapshot, embedder, snapshot.path

    def __repr__(self) -> str:
        held = f"{self.n_uses:,} uses of {len(self.words):,} words"
        return f"<Index {str(self.path)!r}: {held} in {self.n_sentences:,} sentences>"

    @classmethod
    def build(
        cls,
        corpus: Iterable[Sentence],
        embedder: LayerSource,
        path: str | Path,
        *,
        keep: Keeping | None = None,
        words: WordChoice = None,
        max_uses: int = 200,
        precision: Precision = "int8",
        source: ModelSource | None = None,
        progress: BuildWatch = lambda _: None,
    ) -> "Index":
        """Index all words, the most frequent ones, or a list. If it is stopped, the same call
        continues. `keep` is "meaning" by default if the model has a lens, and "mix" if not; "all"
        also has the lens. `source` tells readers of the index where its model is."""
        asked = build.new_manifest(
            embedder, keep, precision, words=words, max_uses=max_uses, source=source
        )
        build.build(corpus, embedder, Path(path), asked, words, progress)
        return cls.open(path, embedder)

    @classmethod
    def open(cls, path: str | Path, embedder: LayerSource | None = None) -> "Index":
        """An existing index; with its model it can search for words in new sentences."""
        index = cls(IndexSnapshot.open(Path(path)), embedder)
        if embedder is not None:
            index.check_model(embedder)
        return index

    def refresh(self) -> None:
        """See what has been committed since."""
        self._snapshot = IndexSnapshot.open(self.path)

    def verify(self) -> IndexVerdict:
        """Read everything and compare it with its checksums."""
        return verify(self.path)

    # Properties ---------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        return self._snapshot.manifest

    @property
    def n_uses(self) -> int:
        """Includes uses in deleted sentences until the index is compacted."""
        return self._snapshot.n_uses

    @property
    def n_sentences(self) -> int:
        return sum(segment.sentences for segment in self.manifest.segments)

    @property
    def words(self) -> list[str]:
        """Every word that has uses, in alphabetical order."""
        return self._snapshot.words

    @property
    def frequencies(self) -> dict[str, int]:
        """How often each of these words occurs in the corpus."""
        return self._snapshot.frequencies

    @property
    def layers(self) -> tuple[int, ...]:
        """The layer numbers that can be searched."""
        return numbers_of(self.manifest.keep)

    @property
    def searchable(self) -> tuple[int | Literal["mix", "meaning"], ...]:
        """What can be searched: numbers of layers, their mix, and the vectors of a lens."""
        return searchable(self.manifest.keep)

    @property
    def default_layer(self) -> Layer:
        """What is searched unless something else is asked for."""
        return self._snapshot.space.default

    def __contains__(self, word: str) -> bool:
        return word in self._snapshot

    def uses(self, word: str) -> list[Use]:
        """All uses of a word."""
        return self._snapshot.uses(word)

    def use(self, number: int) -> tuple[Use, Surroundings | None]:
        """The use with this id, and the passage around its sentence if the index knows it."""
        return self._snapshot.use(number)

    @property
    def has_origins(self) -> bool:
        """Whether it knows where sentences stand: not those of lists of words, and not if an
        earlier elmore has built it."""
        return any(segment.origins is not None for segment in self.manifest.segments)

    # Neighbors ----------------------------------------------------------------------------------

    def neighbors(
        self,
        sentence: Sentence,
        position: int,
        k: int = 10,
        *,
        layer: Layer | None = None,
        same_word: bool = True,
        distinct: bool = True,
        embedder: LayerSource | None = None,
    ) -> Neighbors:
        """The uses most similar to this one: of the same word, or of any word.

        With `distinct` every sentence is listed once; the given sentence is never listed.
        """
        words = packed_sentence(sentence).words
        if not 0 <= position < len(words):
            raise InputError(
                f"position is {position}, but the sentence has words 0 to {len(words) - 1}."
            )
        word = self._snapshot.known(words[position]) if same_word else None
        (embedding,) = self._model(embedder).stream([words])
        layers = embedding.layers[:, position]  # (L, D)
        lens = embedding.lens
        return Neighbors(self._snapshot.neighbors(layers, word, k, layer, distinct, [words], lens))

    def neighbors_of(
        self,
        vectors: Vectors,
        word: str | None = None,
        k: int = 10,
        *,
        layer: Layer | None = None,
        distinct: bool = True,
        without: Sequence[Sentence] = (),
    ) -> Neighbors:
        """The same for the layers of a word, (L, D), from the model. With `word`, only among its
        uses; sentences in `without` are skipped."""
        with_lens = isinstance(self.manifest.keep, Meaning)
        lens = lens_of(self._model(None)) if with_lens else None
        found = self._snapshot.neighbors(vectors, word, k, layer, distinct, without, lens)
        return Neighbors(found)

    def static_neighbors(
        self, word: str, k: int = 10, vectors: StaticVectors | None = None
    ) -> list[StaticNeighbor]:
        """Indexed words whose context-free vectors are most similar to that of this word: layer 0
        of the model, or other static vectors."""
        return self._snapshot.static_neighbors(word, k, vectors)

    # Senses -------------------------------------------------------------------------------------

    def senses(
        self, word: str, *, layer: Layer | None = None, typical: int = 3, words: int = 8
    ) -> Senses:
        """The senses of a word, each with some typical uses and characteristic words."""
        return clustered_uses(self._snapshot, word, layer).senses(typical, words)

    def n_senses(self, word: str, layer: Layer | None = None) -> int:
        """How many senses a word has; faster than `senses`."""
        return len(cluster(self._snapshot.vectors(word, layer)).centers)

    def map(self, word: str, layer: Layer | None = None) -> WordMap:
        """All uses of a word in the plane, each with its sense."""
        return clustered_uses(self._snapshot, word, layer).map()

    def senses_and_map(
        self, word: str, *, layer: Layer | None = None, typical: int = 3, words: int = 8
    ) -> tuple[Senses, WordMap]:
        """Both; the uses are clustered only once."""
        clustered = clustered_uses(self._snapshot, word, layer)
        return clustered.senses(typical, words), clustered.map()

    # Writing ------------------------------------------------------------------------------------

    def add(
        self,
        sentences: Iterable[Sentence],
        *,
        embedder: LayerSource | None = None,
        progress: BuildWatch = lambda _: None,
    ) -> int:
        """Add all uses of indexed words in new sentences, without a limit per word. Returns how
        many sentences were new. If it is stopped, the same call continues."""
        model = self._model(embedder)
        try:
            with IndexWriter(self.path) as writer:
                return CorpusEmbedding(writer, model, BuildReport(progress)).add(sentences)
        finally:
            self.refresh()

    def delete(self, sentences: Iterable[Sentence]) -> int:
        """Delete sentences with all their uses. Returns how many were in the index."""
        wanted = {read.packed for read in pieces(sentences)}
        deleted = 0
        with IndexWriter(self.path) as writer:
            for i, segment in enumerate(writer.segments()):
                found = [n for packed in wanted for n in segment.find(writer.key(packed), packed)]
                if found:
                    writer.delete(i, found)
                deleted += len(found)
        self.refresh()
        return deleted

    def compact(self) -> None:
        """Group the uses of each word again, remove what is deleted, and give checksums to what an
        older elmore wrote without."""
        with IndexWriter(self.path) as writer:
            compact(writer)
            approximate(writer)
        self.refresh()

    def check_model(self, embedder: LayerSource) -> None:
        """Raise an error for a model that these vectors do not come from."""
        remedy = "use that model with the same precision, or another index"
        check_model(self.path, self.manifest.fingerprint, embedder, remedy)
        check_lens(self.path, self.manifest.keep, embedder)

    def _model(self, embedder: LayerSource | None) -> LayerSource:
        if embedder is not None:
            self.check_model(embedder)
            return embedder
        if self.embedder is None:
            raise ConfigError(f"{self.path}: opened without its model; open it with one.")
        return self.embedder
