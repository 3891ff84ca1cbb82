"""Static vectors in elmore's own folder: config.json, model.safetensors, vocab.txt. They are also
written as word2vec text or as `.npz`, which other tools read.
"""

from pathlib import Path

import numpy as np

from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.native import CONFIG, MODEL, check_version, read_tensors, save_tensors
from elmore.config import Frozen, load_json
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_file, atomic_folder
from elmore.models.static import StaticVectors, write_word2vec
from elmore.models.static_table import StaticConfig, StaticTable
from elmore.text.vocabulary import MARKS, VOCABULARY, Vocabulary, WordReader

VECTOR_ENDINGS = (".txt", ".vec", ".npz")
"""Files that static vectors are written to."""


class StaticFolderConfig(Frozen):
    """config.json."""

    format: str = "elmore"
    version: int = 2
    model: StaticConfig
    notes: tuple[str, ...] = ()


def static_checkpoint(
    model: StaticTable, vocabulary: Vocabulary, notes: tuple[str, ...] = ()
) -> Checkpoint:
    return Checkpoint(
        model=model, reader=WordReader(vocabulary), vocabulary=vocabulary, notes=notes
    )


def read_static(folder: Path) -> Checkpoint:
    config = load_json(folder / CONFIG, StaticFolderConfig)
    check_version(folder / CONFIG, config.format, config.version)
    model = build_model(config.model, read_tensors(folder / MODEL), str(folder / MODEL))
    assert isinstance(model, StaticTable)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    if len(vocabulary) != config.model.n_words:
        raise FormatError(
            f"{folder / VOCABULARY}: {len(vocabulary):,} words, but the model has "
            f"{config.model.n_words:,}; expected the vocabulary it was trained with."
        )
    return static_checkpoint(model, vocabulary, config.notes)


def write_static_folder(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, complete or absent."""
    with atomic_folder(folder) as beside:
        write_static_files(checkpoint, beside)


def write_static_files(checkpoint: Checkpoint, folder: Path) -> None:
    model = checkpoint.model
    assert isinstance(model, StaticTable)
    config = StaticFolderConfig(model=model.config, notes=checkpoint.notes)
    (folder / CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    save_tensors(model.state_dict(), folder / MODEL)
    for name, content in checkpoint.need_reader().files().items():
        (folder / name).write_bytes(content)


def vectors_of(checkpoint: Checkpoint) -> StaticVectors:
    """The table without its marks."""
    model, vocabulary = checkpoint.model, checkpoint.vocabulary
    if not isinstance(model, StaticTable) or vocabulary is None:
        kind = type(model).__name__
        raise FormatError(
            f"The model is a {kind}; expected static vectors, made by `elmore pretrain --recipe "
            "sgns`, or a file of vectors."
        )
    rows = [i for i, word in enumerate(vocabulary.words) if word not in MARKS]
    vectors = model.vectors.detach().cpu().numpy()[rows]
    return StaticVectors(tuple(vocabulary.words[i] for i in rows), vectors)


def write_vectors(vectors: StaticVectors, target: Path) -> None:
    """`.npz` with `words` and `vectors`; else word2vec's text, from which float32 reads the same
    numbers back."""
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    with atomic_file(target) as beside:
        if target.suffix == ".npz":
            with beside.open("wb") as file:
                np.savez(file, words=np.array(vectors.words), vectors=vectors.vectors)
            return
        rows = zip(vectors.words, vectors.vectors, strict=True)
        write_word2vec(beside, rows, len(vectors.words), vectors.dim)
