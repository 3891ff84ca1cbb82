"""The store: a folder with the vectors of sentences, each sentence once. Many readers, one writer.

store = Store.create("squad.store", embedder, keep="average", precision="int8")
store.fill(sentences)
Store.open("squad.store")["We sat on the river bank."].layers
"""

# K kept layers, B sentences, T words in the longest, n words, D vector dim
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from elmore.embedder import LayerSource, lens_of
from elmore.embedding import Embedding, Layers, Meaning, Sentence, Vectors
from elmore.errors import ConfigError, ElmoreError, FormatError, InputError
from elmore.models.layers import LayerStates
from elmore.store import fill
from elmore.store.fill import FillProgress, FillWatch
from elmore.store.keep import Keep, KeepAsked, Projection, keep_of
from elmore.store.layout import Manifest, Record
from elmore.store.merge import merge
from elmore.store.precision import PRECISIONS, Precision, Stored, as_tensor
from elmore.store.snapshot import Snapshot
from elmore.store.verify import Verdict, verify, words_damage
from elmore.store.words import PackedSentence, pack, packed_sentence, packed_sentences, shown
from elmore.store.writer import StoreWriter, create_folder


class MissingError(InputError, KeyError):
    """The sentence is not in the store."""

    __str__ = Exception.__str__  # that of KeyError adds quotes


class Store:
    """Sentences and their vectors on disk, as of opening or the last `refresh`."""

    def __init__(self, snapshot: Snapshot, embedder: LayerSource | None = None):
        self._snapshot, self.embedder = snapshot, embedder

    def __repr__(self) -> str:
        kept = self.manifest.keep.described()
        held = f"{len(self):,} sentences, {kept}, {self.manifest.precision}"
        return f"<Store {str(self.path)!r}: {held}>"

    @classmethod
    def create(
        cls,
        path: str | Path,
        embedder: LayerSource,
        *,
        keep: KeepAsked = "all",
        precision: Precision = "float32",
    ) -> "Store":
        """A new, empty folder for vectors of this model."""
        if precision not in PRECISIONS:
            raise ConfigError(f"precision is {precision!r}; expected {', '.join(PRECISIONS)}.")
        manifest = Manifest(
            fingerprint=embedder.fingerprint,
            n_layers=embedder.n_layers,
            dim=embedder.dim,
            keep=keep_of(keep, embedder.n_layers, lens_of(embedder)),
            precision=precision,
            context_free=embedder.context_free,
        )
        create_folder(Path(path), manifest, keep if isinstance(keep, Projection) else None)
        return cls.open(path, embedder)

    @classmethod
    def open(cls, path: str | Path, embedder: LayerSource | None = None) -> "Store":
        """An existing store; to add to it, pass the model that it was made with."""
        store = cls(Snapshot.open(Path(path)), embedder)
        if embedder is not None:
            store.check_model(embedder)
        return store

    @classmethod
    def merge(cls, paths: Sequence[str | Path], target: str | Path) -> "Store":
        """Add all sentences of some stores to one, new or existing; `merge` gives a report."""
        merge([Path(path) for path in paths], Path(target))
        return cls.open(target)

    # Properties ---------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._snapshot.folder

    @property
    def manifest(self) -> Manifest:
        return self._snapshot.manifest

    @property
    def keep(self) -> Keep:
        return self.manifest.keep

    @property
    def context_free(self) -> bool:
        """Whether the first kept layer gives a word the same vector in every sentence."""
        has_layer_0 = isinstance(self.keep, Layers) and self.keep.numbers[0] == 0
        return has_layer_0 and self.manifest.context_free

    @property
    def precision(self) -> Precision:
        return self.manifest.precision

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self.manifest.fingerprint

    @property
    def vectors_fingerprint(self) -> str:
        """Of the model and of what is kept: these are not the model's own vectors."""
        kept = f"{self.fingerprint} {self.keep.model_dump_json()} {self.precision}"
        return hashlib.sha256(kept.encode()).hexdigest()

    @property
    def n_layers(self) -> int:
        """Kept layers."""
        return self._snapshot.codec.n_layers

    @property
    def dim(self) -> int:
        return self._snapshot.codec.dim

    @property
    def n_words(self) -> int:
        return self.manifest.words

    @property
    def projection(self) -> Projection | None:
        return self._snapshot.projection

    def __len__(self) -> int:
        return self._snapshot.n_records

    def __reduce__(self) -> tuple[Any, ...]:
        return Store.open, (self.path,)  # another process maps the files for itself

    # Reading ------------------------------------------------------------------------------------

    def __contains__(self, sentence: Sentence) -> bool:
        return self._snapshot.lookup(packed_sentence(sentence).packed) is not None

    def __getitem__(self, sentence: Sentence) -> Embedding:
        found = self.get(sentence)
        if found is None:
            raise self._missing(packed_sentence(sentence).words)
        return found

    def get(self, sentence: Sentence) -> Embedding | None:
        """The kept layers as float32; None if the sentence is not in the store."""
        read = packed_sentence(sentence)
        layers = self.layers(read)
        return None if layers is None else Embedding(read.words, layers, read.spans)

    def layers(self, read: PackedSentence) -> Vectors | None:
        """The same for a sentence that has been packed."""
        record = self._snapshot.lookup(read.packed)
        return None if record is None else self._snapshot.vectors(record).numpy()  # (K, n, D)

    def stored(self, sentence: Sentence) -> Stored | None:
        """The numbers as they are on disk: nothing is copied or decoded."""
        record = self._snapshot.lookup(packed_sentence(sentence).packed)
        return None if record is None else self._snapshot.stored(record)

    def batch(self, sentences: Sequence[Sentence]) -> LayerStates:
        """Padded with zeros; fits a DataLoader: `DataLoader(sentences, collate_fn=store.batch)`."""
        records = [self._record(read) for read in packed_sentences(sentences)]
        longest = max((record.n_words for record in records), default=0)
        layers = torch.zeros(self.n_layers, len(records), longest, self.dim)  # (K, B, T, D)
        mask = torch.zeros(len(records), longest, dtype=torch.bool)
        for i, record in enumerate(records):
            layers[:, i, : record.n_words] = self._snapshot.vectors(record)
            mask[i, : record.n_words] = True
        return LayerStates(layers, mask)

    def __iter__(self) -> Iterator[Embedding]:
        """Every sentence, in the order of storing."""
        return (self.at(number) for number in range(self._snapshot.manifest.sentences))

    def at(self, number: int) -> Embedding:
        """A sentence by its number, in the order of storing."""
        snapshot = self._snapshot
        if (damage := words_damage(snapshot, number)) is not None:
            raise FormatError(
                f"{self.path}: {damage}; copy the other sentences with `elmore store merge`."
            )
        return snapshot.embedding(snapshot.record(number))

    def refresh(self) -> None:
        """See what has been committed since."""
        self._snapshot = Snapshot.open(self.path)

    def verify(self) -> Verdict:
        """Read everything and compare it with its checksums."""
        return verify(self._snapshot)

    # Writing ------------------------------------------------------------------------------------

    def fill(
        self, sentences: Iterable[Sentence], progress: FillWatch = lambda _: None
    ) -> FillProgress:
        """Compute and add what is missing, with regular commits; if stopped, call it again."""
        if self.embedder is None:
            raise ConfigError(f"{self.path}: opened without a model; open it with one to fill it.")
        try:
            with StoreWriter(self.path) as writer:
                return fill.fill(writer, self.embedder, sentences, progress)
        finally:
            self.refresh()

    def add(self, embeddings: Iterable[Embedding]) -> int:
        """Add vectors that the same model has made elsewhere. Returns how many were new."""
        added = 0
        try:
            with StoreWriter(self.path) as writer:
                for embedding in embeddings:
                    added += self._add(writer, embedding)
                    if fill.is_due(writer):
                        writer.commit()
                writer.commit()
        finally:
            self.refresh()
        return added

    def as_stored(self, embedding: Embedding) -> Embedding:
        """A new embedding as the store would return it."""
        block = as_tensor(bytearray(fill.encoded(self._snapshot, embedding)))
        vectors = self._snapshot.codec.decode(block, len(embedding.words)).numpy()  # (K, n, D)
        return Embedding(embedding.words, vectors, embedding.spans)

    def check_model(self, embedder: LayerSource) -> None:
        """Raise an error for a model that these vectors do not come from."""
        check_model(self.path, self.fingerprint, embedder, "use that model, or another store")
        check_lens(self.path, self.keep, embedder)

    def _add(self, writer: StoreWriter, embedding: Embedding) -> bool:
        if embedding.layers.shape[1] != len(embedding.words):
            raise InputError(
                f"{shown(embedding.words)}: {len(embedding.words)} words with "
                f"{embedding.layers.shape[1]} vectors per layer; expected one per word."
            )
        packed = pack(embedding.words)
        key = writer.snapshot.keys.of(packed)
        if writer.has(key):
            return False
        block = fill.encoded(writer.snapshot, embedding)
        writer.add(key, packed, len(embedding.words), block)
        return True

    def _record(self, read: PackedSentence) -> Record:
        record = self._snapshot.lookup(read.packed)
        if record is None:
            raise self._missing(read.words)
        self._snapshot.block(record)  # checks the number of words before memory is allocated
        return record

    def _missing(self, words: list[str]) -> MissingError:
        return MissingError(f"{shown(words)} ({len(words)} words) is not in {self.path}.")


def check_model(path: Path, fingerprint: str, embedder: LayerSource, remedy: str) -> None:
    """Raise an error for a model whose fingerprint is not the one in the folder `path`."""
    if embedder.fingerprint != fingerprint:
        raise InputError(
            f"{path}: contains vectors of the model {fingerprint[:12]}, but the given model is "
            f"{embedder.fingerprint[:12]}; {remedy}."
        )


def check_lens(path: Path, keep: Keep, embedder: LayerSource) -> None:
    """Raise an error if the folder `path` has vectors of a lens that is not the model's."""
    if isinstance(keep, Meaning):
        try:
            keep.fitting(lens_of(embedder))
        except ElmoreError as error:
            raise InputError(f"{path}: {error}") from None
