"""Models that have a row for each word of a list, static vectors and context2vec, in elmore's own
folder: config.json, model.safetensors, vocab.txt. Their words' vectors are also written as word2vec
text or as `.npz`, which other tools read.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.native import CONFIG, MODEL, check_version, read_tensors, save_tensors
from elmore.config import Frozen, load_json
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_file, atomic_folder
from elmore.models.context2vec import Context2vec, Context2vecConfig
from elmore.models.static import StaticVectors, write_word2vec
from elmore.models.static_table import StaticConfig, StaticTable
from elmore.text.vocabulary import MARKS, VOCABULARY, Vocabulary, WordReader

VECTOR_ENDINGS = (".txt", ".vec", ".npz")
"""Files that static vectors are written to."""
WordModel = StaticTable | Context2vec
WordModelConfig = Annotated[StaticConfig | Context2vecConfig, Field(discriminator="kind")]
KINDS = ("static", "context2vec")


class WordFolderConfig(Frozen):
    """config.json."""

    format: str = "elmore"
    version: int = 2
    model: WordModelConfig
    notes: tuple[str, ...] = ()


def word_checkpoint(
    model: WordModel, vocabulary: Vocabulary, notes: tuple[str, ...] = ()
) -> Checkpoint:
    return Checkpoint(
        model=model, reader=WordReader(vocabulary), vocabulary=vocabulary, notes=notes
    )


def read_word_model(folder: Path) -> Checkpoint:
    config = load_json(folder / CONFIG, WordFolderConfig)
    check_version(folder / CONFIG, config.format, config.version)
    model = build_model(config.model, read_tensors(folder / MODEL), str(folder / MODEL))
    assert isinstance(model, WordModel)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    if len(vocabulary) != config.model.n_words:
        raise FormatError(
            f"{folder / VOCABULARY}: {len(vocabulary):,} words, but the model has "
            f"{config.model.n_words:,}; expected the vocabulary it was trained with."
        )
    return word_checkpoint(model, vocabulary, config.notes)


def write_word_model(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, complete or absent."""
    with atomic_folder(folder) as beside:
        write_word_files(checkpoint, beside)


def write_word_files(checkpoint: Checkpoint, folder: Path) -> None:
    model = checkpoint.model
    assert isinstance(model, WordModel)
    config = WordFolderConfig(model=model.config, notes=checkpoint.notes)
    (folder / CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    save_tensors(model.state_dict(), folder / MODEL)
    for name, content in checkpoint.need_reader().files().items():
        (folder / name).write_bytes(content)


def vectors_of(checkpoint: Checkpoint) -> StaticVectors:
    """The table without its marks; of context2vec, that of the words that it predicts."""
    model, vocabulary = checkpoint.model, checkpoint.vocabulary
    if not isinstance(model, WordModel) or vocabulary is None:
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
