"""Export a store: AllenNLP's HDF5, and Arrow or Parquet with one row per word."""

# K kept layers, n words, D vector dim
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmore.dump.lines import Item, SentenceMap
from elmore.dump.writers import Hdf5Writer
from elmore.embedding import Embedding, Layers, Vectors
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_file
from elmore.files.hdf5_file import hdf5_file
from elmore.store.store import Store

ENDINGS = (".hdf5", ".h5", ".parquet", ".arrow")
_GROUP_WORDS = 4096

ExportWatch = Callable[[int], None]


def export(store: Store, target: str | Path, watch: ExportWatch = lambda _: None) -> None:
    """In the format of the target's ending; `watch` is called with the number of each sentence."""
    target = Path(target)
    if target.suffix not in ENDINGS:
        raise ConfigError(f"{target}: unknown ending; expected {', '.join(ENDINGS)}.")
    if target.exists():
        raise InputError(f"{target} exists already; remove it or choose another name.")
    if target.suffix in (".hdf5", ".h5"):
        export_hdf5(store, target, watch)
    else:
        export_arrow(store, target, watch)


def export_hdf5(store: Store, target: Path, watch: ExportWatch = lambda _: None) -> None:
    """AllenNLP's layout: one dataset per sentence, in stored order, and `sentence_to_index`.

    Layers are (K, n, D); an average, a mix or a projection is (n, D), as AllenNLP's --average.
    """
    in_layers = isinstance(store.keep, Layers)
    sentence_map = SentenceMap(wanted=True)
    with atomic_file(target) as beside, hdf5_file(beside) as (file, disk):
        writer = Hdf5Writer(file, disk, use_sentence_keys=False)
        for number, embedding in enumerate(store):
            sentence = " ".join(embedding.words)
            vectors = embedding.layers if in_layers else embedding.layers[0]
            writer.add(Item(number, sentence, embedding.words, vectors))
            sentence_map.add(sentence.encode("utf-8", "replace").decode(), number)
            watch(number)
        writer.finish(sentence_map.text())


def export_arrow(store: Store, target: Path, watch: ExportWatch = lambda _: None) -> None:
    """One row per word: sentence, position, word, and a column of vectors per layer."""
    pa = _pyarrow()
    names = ["vector"]
    if isinstance(store.keep, Layers):
        names = [f"layer_{number}" for number in store.keep.numbers]
    keep = json.dumps(store.keep.model_dump(mode="json"))
    about = {"model": store.fingerprint, "keep": keep, "precision": store.precision}
    vector = pa.list_(pa.float32(), store.dim)
    fields = [("sentence", pa.int64()), ("position", pa.int32()), ("word", pa.string())]
    schema = pa.schema([*fields, *((name, vector) for name in names)]).with_metadata(about)
    with atomic_file(target) as beside, _table_writer(beside, target.suffix, schema) as writer:
        for group in _groups(store, watch):
            writer.write_batch(pa.record_batch(_arrays(pa, group, vector), schema=schema))


def _groups(store: Store, watch: ExportWatch) -> Iterator[list[tuple[int, Embedding]]]:
    group: list[tuple[int, Embedding]] = []
    n_words = 0
    for number, embedding in enumerate(store):
        group.append((number, embedding))
        n_words += len(embedding)
        watch(number)
        if n_words >= _GROUP_WORDS:
            yield group
            group, n_words = [], 0
    if n_words:
        yield group


def _arrays(pa: Any, group: list[tuple[int, Embedding]], vector: Any) -> list[Any]:
    lengths = [len(embedding) for _, embedding in group]
    words = [word for _, embedding in group for word in embedding.words]
    layers: Vectors = np.concatenate([e.layers for _, e in group], axis=1)  # (K, n, D)
    return [
        pa.array(np.repeat([number for number, _ in group], lengths), pa.int64()),
        pa.array(np.concatenate([np.arange(n) for n in lengths]), pa.int32()),
        pa.array([word.encode("utf-8", "replace").decode() for word in words], pa.string()),
        *(
            pa.FixedSizeListArray.from_arrays(pa.array(layer.ravel()), type=vector)
            for layer in layers
        ),
    ]


@contextmanager
def _table_writer(path: Path, ending: str, schema: Any) -> Iterator[Any]:
    if ending == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(path, schema, use_dictionary=["word"]) as writer:
            yield writer
    else:
        with _pyarrow().ipc.new_file(path, schema) as writer:
            yield writer


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InputError("Arrow and Parquet need: pip install 'elmore[arrow]'") from None
    return pyarrow
