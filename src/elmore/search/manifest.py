"""An index on disk: a folder of segments that never change, and a manifest that lists the valid
ones. A change takes effect when the manifest is replaced.
"""

from pathlib import Path

from pydantic import Field

from elmore.config import Frozen
from elmore.embedding import LayerChoice
from elmore.files.checked import read_checked, write_checked
from elmore.store.precision import Codec, Precision

VERSION = 2  # 1 had no checksum
MANIFEST = "index.json"


class SegmentState(Frozen):
    """A valid segment; the sizes of its files follow from these numbers."""

    name: str
    words: int = Field(ge=1)
    uses: int = Field(ge=1)
    sentences: int = Field(ge=1)
    deleted: int = Field(default=0, ge=0)
    """The generation of its list of deleted sentences; 0: no list."""


class Reading(Frozen):
    """How much of the corpus has been read; a stopped build continues from there."""

    sentences: int = 0
    crc32: int = 0
    """Of these sentences, to detect another corpus."""
    of: int = 0
    """Sentences in the whole corpus."""
    complete: bool = False


class ModelSource(Frozen):
    """Where a model can be loaded from again."""

    name: str
    """A shipped name or a path."""
    options: str | None = None
    precision: str = "float32"
    pieces: str | None = None
    lowercase: bool | None = None


class Manifest(Frozen):
    """An index at one moment."""

    version: int = VERSION
    fingerprint: str
    """Of the model that made the vectors."""
    source: ModelSource | None
    """For readers who open the index without its model."""
    n_layers: int = Field(ge=1)
    """Of the model, like `dim`; the index may keep less."""
    dim: int = Field(ge=1)
    keep: LayerChoice
    precision: Precision
    any_word: bool
    """Every word is indexed, also new ones; otherwise only those of the list."""
    listed_words: int = Field(ge=0)
    max_uses: int = Field(ge=1)
    """Per word, when the index was built from its corpus."""
    reading: Reading = Reading()
    segments: tuple[SegmentState, ...] = ()
    next_segment: int = 0
    approximate: str | None = None
    """The folder of the approximate indexes; they cover the first segment."""

    @property
    def codec(self) -> Codec:
        return Codec(self.precision, *self.keep.shape(self.dim))

    @property
    def n_kept(self) -> int:
        return self.keep.shape(self.dim)[0]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_checked(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> Manifest:
    remedy = "restore it from a copy, or build the index again"
    return read_checked(folder / MANIFEST, Manifest, VERSION, called="an index", remedy=remedy)
