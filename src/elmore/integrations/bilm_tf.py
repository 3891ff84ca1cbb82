"""The two dumps of bilm-tf, under its names: vectors of single words, and of sentences."""

# V words, P projection dim
from pathlib import Path

import torch

from elmore.checkpoint.bilm import bilm_of, speller_of
from elmore.checkpoint.sources import load
from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.errors import InputError
from elmore.files.atomic import atomic_file
from elmore.files.hdf5_file import hdf5_file
from elmore.files.text_file import read_lines

_PIECE = 4096  # words spelled together


def dump_token_embeddings(
    vocab_file: str | Path,
    options_file: str | Path | None,
    weight_file: str | Path,
    outfile: str | Path,
) -> None:
    """The context-free vector of every line of `vocab_file`: HDF5 `embedding` (V, P), which a model
    that reads words can take as its table. It is half as wide as a layer of an `Embedding`, where
    the same vector stands twice."""
    checkpoint = load(weight_file, options=options_file)
    model, reader = bilm_of(checkpoint), speller_of(checkpoint)
    words = [line for line in read_lines(vocab_file) if line]
    if not words:
        raise InputError(f"{vocab_file}: no words; expected one per line.")
    with atomic_file(Path(outfile)) as path, hdf5_file(path) as (file, _), torch.no_grad():
        shape = (len(words), model.config.context.dim)
        table = file.create_dataset("embedding", shape, dtype="float32")
        for start in range(0, len(words), _PIECE):
            some = words[start : start + _PIECE]
            table[start : start + len(some)] = model.words(torch.from_numpy(reader.spell(some)))


def dump_bilm_embeddings(
    vocab_file: str | Path | None,
    dataset_file: str | Path,
    options_file: str | Path | None,
    weight_file: str | Path,
    outfile: str | Path,
    *,
    stateful: bool = False,
) -> None:
    """Every layer of every line of `dataset_file`, words split by spaces: HDF5 datasets "0", "1", …
    of shape (layers, words, dim). `vocab_file` is not needed by models that spell their words. The
    original carried its state from line to line, which `stateful=True` does too."""
    config = DumpConfig(layers="all", stateful=stateful, batch_sentences=1, forget_sentences=True)
    embedder = Embedder.load(weight_file, options=options_file)
    dump(embedder, (line.strip() for line in read_lines(dataset_file)), Path(outfile), config)
