"""The settings of a dump: which layers, which format, how it runs. Errors that can be found without
a model are found here, before a model is loaded.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from elmore.config import Frozen
from elmore.embedding import is_layer_choice
from elmore.errors import ConfigError, InputError
from elmore.files.lock import Lock
from elmore.files.sentence_files import Lines
from elmore.text.batching import BATCH_WORDS

Format = Literal["hdf5", "npz", "jsonl"]

STDOUT = "-"
FORMATS: dict[str, Format] = {".hdf5": "hdf5", ".h5": "hdf5", ".npz": "npz", ".jsonl": "jsonl"}


class DumpConfig(Frozen):
    """How a text becomes a file of vectors. The defaults are those of AllenNLP's `elmo --all`."""

    format: Format = "hdf5"
    layers: str = "all"
    """all, top, average, meaning (with a lens), or numbers such as 0,2."""
    batch_words: int = BATCH_WORDS
    stateful: bool = False
    """Rows of a batch carry state from sentence to sentence, as in the original programs."""
    batch_sentences: int = 64
    """Rows of a batch, in a stateful run."""
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    tokenize: bool = False
    """Lines are raw text; otherwise words are separated by white space."""
    lines: Lines = "sentence"
    """How the text was split, if it was by `SentenceFiles`; a resumed run must be split alike."""
    longest: int | None = None
    resume: bool = False
    part_seconds: float = 60.0
    """How often an HDF5 run finishes a part, which is kept if the run stops."""

    @model_validator(mode="after")
    def _fits(self) -> "DumpConfig":
        if not is_layer_choice(self.layers):
            raise ConfigError(
                f"layers is {self.layers!r}; expected all, top, average, meaning, or numbers such "
                "as 0,2."
            )
        for name in ("batch_words", "batch_sentences"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"{name} is {value}; expected 1 or more.")
        if self.resume and self.format != "hdf5":
            raise ConfigError(f"A {self.format} dump cannot be resumed; only HDF5 can.")
        if self.resume and self.stateful:
            raise ConfigError("A stateful dump cannot be resumed: its state is not saved.")
        if self.use_sentence_keys and self.format == "jsonl":
            raise ConfigError("JSON lines have no keys: remove use_sentence_keys.")
        return self

    @property
    def is_one_layer(self) -> bool:
        """Vectors are (n, D), without an axis of layers, as AllenNLP's are."""
        return self.layers in ("top", "average", "meaning")

    @property
    def in_parts(self) -> bool:
        """Written in parts, which are kept if the run is interrupted."""
        return self.format == "hdf5" and not self.stateful

    @property
    def has_map(self) -> bool:
        """`sentence_to_index` is written, unless it is unwanted or sentences are the keys."""
        return self.format != "jsonl" and not (self.forget_sentences or self.use_sentence_keys)


def format_of(target: Path, given: Format | None = None) -> Format:
    """The given format, or else the format of the name's ending."""
    if str(target) == STDOUT:
        if given not in (None, "jsonl"):
            raise ConfigError(f"{given} cannot go to standard output; only jsonl can.")
        return "jsonl"
    if given is None and target.suffix not in FORMATS:
        raise ConfigError(f"{target}: unknown ending; expected {', '.join(FORMATS)}, or --format.")
    return given or FORMATS[target.suffix]


def partial_folder(target: Path) -> Path:
    """The folder with the finished parts of an unfinished HDF5 dump."""
    return target.with_name(target.name + ".partial")


def check_target(target: Path, config: DumpConfig) -> None:
    """Raise an error for a target that exists, cannot be written, or is being written."""
    with target_lock(target, config):
        pass


@contextmanager
def target_lock(target: Path, config: DumpConfig) -> Iterator[None]:
    """The right to write the target, which has been checked."""
    if str(target) == STDOUT:
        if sys.__stdout__ is None:
            raise InputError("-: standard output is closed; give the name of a file.")
        yield
        return
    if target.is_dir():
        raise InputError(f"{target} is a folder; expected the name of a file to write.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder; create it first.")
    with Lock(target, beside=True):
        if target.exists() and not config.resume:
            raise InputError(f"{target} exists already; remove it or choose another name.")
        partial = partial_folder(target)
        if config.in_parts and partial.exists() and not config.resume:
            raise InputError(
                f"{partial} is an unfinished run: continue it with --resume, or remove it."
            )
        yield
