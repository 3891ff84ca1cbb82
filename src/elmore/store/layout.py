"""What a store is on disk: a folder of files that only grow, and a manifest that says how far each
of them counts. What lies beyond was being written when something stopped it, and does not exist.
"""

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elmore.atomic import atomic_file
from elmore.errors import FormatError
from elmore.store.keep import Keep, kept_shape
from elmore.store.precision import Codec, Precision

VERSION = 1
MANIFEST = "manifest.json"
RECORDS = "sentences.bin"
WORDS = "words.txt"
PROJECTION = "projection.npy"
SHARDS = "vectors-*.bin"
INDEXES = "index-*.bin"
_CHECKSUM = "checksum"


def shard_name(number: int) -> str:
    return f"vectors-{number:05}.bin"


def index_name(generation: int) -> str:
    return f"index-{generation:05}.bin"


class FileState(BaseModel):
    """How much of a file counts, and the checksum of that much."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int = Field(default=0, ge=0)
    crc32: int = 0


class Manifest(BaseModel):
    """A store at one moment. Replacing this file is what makes new sentences exist."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    fingerprint: str
    """Of the model whose vectors these are."""
    n_layers: int = Field(ge=1)
    """Of the model, as is `dim`; what is kept may be less."""
    dim: int = Field(ge=1)
    keep: Keep
    precision: Precision
    sentences: int = 0
    words: int = 0
    shards: tuple[FileState, ...] = ()
    records: FileState = FileState()
    text: FileState = FileState()
    index: int = 0
    """The generation of the index file that fits."""

    @property
    def codec(self) -> Codec:
        return Codec(self.precision, *kept_shape(self.keep, self.dim))

    @property
    def files(self) -> dict[str, FileState]:
        """Everything that counts and has a checksum here."""
        shards = {shard_name(i): state for i, state in enumerate(self.shards)}
        return {RECORDS: self.records, WORDS: self.text, **shards}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    content = manifest.model_dump(mode="json")
    whole = {_CHECKSUM: _checksum(content), **content}
    with atomic_file(folder / MANIFEST) as path:
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        whole = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FormatError(f"{folder}: not a store, it has no {MANIFEST}.") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not isinstance(whole, dict) or not isinstance(whole.get("version"), int):
        raise _damaged(path)
    if whole["version"] != VERSION:
        raise FormatError(
            f"{path}: version {whole['version']}, but this elmore reads version {VERSION}; "
            "update elmore."
        )
    checksum = whole.pop(_CHECKSUM, None)
    if checksum != _checksum(whole):
        raise _damaged(path)
    try:
        return Manifest.model_validate(whole)
    except ValidationError:
        raise _damaged(path) from None


def _damaged(path: Path) -> FormatError:
    return FormatError(f"{path}: damaged, its checksum does not fit; restore it from a copy.")


def _checksum(content: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
