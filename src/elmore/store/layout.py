"""A store on disk: a folder of files that only grow, and a manifest with the valid size of each.
Bytes after that size come from a writer that was stopped; readers ignore them.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from elmore.config import Frozen
from elmore.files.checked import read_checked, write_checked
from elmore.store.keep import Keep
from elmore.store.precision import Codec, Precision

VERSION = 1
MANIFEST = "manifest.json"
RECORDS = "sentences.bin"
WORDS = "words.txt"
PROJECTION = "projection.npy"
SHARDS = "vectors-*.bin"
INDEXES = "index-*.bin"


def shard_name(number: int) -> str:
    return f"vectors-{number:05}.bin"


def index_name(generation: int) -> str:
    return f"index-{generation:05}.bin"


class FileState(Frozen):
    """The valid size of a file, and the checksum of that part."""

    bytes: int = Field(default=0, ge=0)
    crc32: int = 0


class Manifest(Frozen):
    """A store at one moment. New sentences exist once this file has been replaced."""

    version: int = VERSION
    fingerprint: str
    """Of the model that made the vectors."""
    n_layers: int = Field(ge=1)
    """Of the model, like `dim`; the store may keep less."""
    dim: int = Field(ge=1)
    keep: Keep
    precision: Precision
    context_free: bool = True
    """Whether the model's layer 0 gives a word the same vector in every sentence."""
    sentences: int = 0
    words: int = 0
    shards: tuple[FileState, ...] = ()
    records: FileState = FileState()
    text: FileState = FileState()
    index: int = 0
    """The generation of the current index file."""

    @model_serializer(mode="wrap")
    def _without_default(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The same bytes as before there were models without a context-free layer."""
        content: dict[str, Any] = dump(self)
        if self.context_free:
            del content["context_free"]
        return content

    @property
    def codec(self) -> Codec:
        return Codec(self.precision, *self.keep.shape(self.dim))

    @property
    def files(self) -> dict[str, FileState]:
        """Every file that has a checksum in the manifest."""
        shards = {shard_name(i): state for i, state in enumerate(self.shards)}
        return {RECORDS: self.records, WORDS: self.text, **shards}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_checked(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> Manifest:
    remedy = "restore it from a copy"
    return read_checked(folder / MANIFEST, Manifest, VERSION, called="a store", remedy=remedy)
