"""An index on disk: a folder of segments that never change, and a manifest that lists the valid
ones. A change takes effect when the manifest is replaced.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from elmore.config import Frozen
from elmore.embedding import LayerChoice
from elmore.errors import FormatError
from elmore.files.checked import read_checked, write_checked
from elmore.store.layout import FileState
from elmore.store.precision import Codec, Precision

VERSION = 4  # 1 had no checksum, 2 no checksums of its data, 3 no origins of sentences
_OLDEST = 2
MANIFEST = "index.json"
REMEDY = "restore it from a copy, or build the index again"
_ATTEMPTS = 100

_Read = TypeVar("_Read")


class OriginState(Frozen):
    """The sizes of the files that tell where sentences stand."""

    passages: int = Field(ge=1)
    passage_bytes: int = Field(ge=1)
    file_bytes: int = Field(ge=1)


class SegmentState(Frozen):
    """A valid segment; the sizes of its files follow from these numbers."""

    name: str = Field(pattern=r"^segment-[0-9]+$")
    words: int = Field(ge=1)
    uses: int = Field(ge=1)
    sentences: int = Field(ge=1)
    deleted: int = Field(default=0, ge=0)
    """The generation of its list of deleted sentences; 0: no list."""
    deletions: FileState | None = None
    """Of this list."""
    word_bytes: int = Field(default=0, ge=0)
    """The size of its list of words, like `text_bytes` of its sentences."""
    text_bytes: int = Field(default=0, ge=0)
    checksums: int | None = None
    """The CRC of its file of checksums; None: version 2 had none."""
    origins: OriginState | None = None
    """None: not known, for lists of words and before version 4."""


class Reading(Frozen):
    """How much of the corpus has been read; a stopped build continues from there."""

    sentences: int = 0
    crc32: int = 0
    """Of these sentences, to detect another corpus."""
    of: int = 0
    """Sentences in the whole corpus."""
    whole_crc32: int | None = None
    """Of the whole corpus; version 2 did not have it."""
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
    chosen: str = ""
    """Which words were asked for; version 2 did not have it."""
    max_uses: int = Field(ge=1)
    """Per word, when the index was built from its corpus."""
    reading: Reading = Reading()
    finished: bool = False
    """The build has ended; sentences may have been added since."""
    files: dict[str, FileState] = Field(default={})
    """The word list, the counts and the mean."""
    segments: tuple[SegmentState, ...] = ()
    next_segment: int = 0
    approximate: str | None = Field(default=None, pattern=r"^approximate-[0-9]+$")
    """The folder of the approximate indexes; they cover the first segment."""
    approximate_files: dict[str, FileState] = Field(default={})

    @property
    def codec(self) -> Codec:
        return Codec(self.precision, *self.keep.shape(self.dim))

    @property
    def n_kept(self) -> int:
        return self.keep.shape(self.dim)[0]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_checked(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> Manifest:
    return read_checked(
        folder / MANIFEST, Manifest, VERSION, called="an index", remedy=REMEDY, oldest=_OLDEST
    )


def settled(folder: Path, read: Callable[[Manifest], _Read]) -> _Read:
    """What `read` makes of the current manifest. A file may be missing because a writer has just
    replaced it: then the new manifest is read."""
    for _ in range(_ATTEMPTS):
        manifest = read_manifest(folder)
        try:
            return read(manifest)
        except FileNotFoundError as error:
            missing = error.filename
            if read_manifest(folder) == manifest:
                break
    raise FormatError(f"{missing}: missing; {REMEDY}.")
