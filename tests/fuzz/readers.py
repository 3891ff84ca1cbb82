"""Every reader of files that elmore has: how to make an intact example, and how to read it so that
all of it is used. What is read comes back as a digest where the format promises to notice damage.
"""

import gzip
import hashlib
import lzma
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import zstandard

from elmore import Embedder, Store
from elmore.checkpoint.sources import load, save
from elmore.errors import FormatError
from elmore.files.text_file import read_lines
from elmore.models.static import StaticVectors
from elmore.pretrain.run import read_run
from elmore.search.index import Index
from elmore.tasks.fit import fit
from elmore.tasks.model import TaskModel
from elmore.tasks.readers.columns import read_columns, read_conllu
from elmore.tasks.readers.labeled_texts import read_labeled_texts
from elmore.tasks.readers.pairs import read_pairs
from elmore.tasks.readers.senses import read_raganato, read_semcor
from elmore.tasks.readers.squad import read_squad
from elmore.tasks.readers.trees import read_trees
from elmore.tasks.readers.use_pairs import read_wic
from elmore.tasks.saved import read_record, read_saved
from elmore.train.run_folder import RunFolder
from tests.before.answers import copied
from tests.checkpoint import foreign_models
from tests.tasks.readers import test_raganato, test_semcor, test_wic
from tests.tasks.tiny_tasks import tagged, tagging_config
from tests.tiny_models import make

BEFORE = Path(__file__).parents[1] / "before"
SENTENCES = [["the", "river", "bank", "."], ["naïve"], []]


@dataclass(frozen=True)
class Subject:
    """A reader. `make` fills an empty folder and says what is to be read."""

    make: Callable[[Path], Path]
    read: Callable[[Path], str | None]
    checked: bool = False
    """Damage that changes what is read must be noticed."""


def digest(*parts: object) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return whole.hexdigest()


# Models -------------------------------------------------------------------------------------------


def use_model(path: Path) -> None:
    checkpoint = load(path, heads=True)
    if checkpoint.reader is not None:
        Embedder(checkpoint, device="cpu").embed(SENTENCES)


def old_model(name: str) -> Callable[[Path], Path]:
    """Of version 1, as the version before wrote it."""
    return lambda folder: shutil.copytree(BEFORE / "models" / name, folder / name)


def new_model(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        save(load(BEFORE / "models" / name, heads=True), folder / name)
        return folder / name

    return write


def hdf5(folder: Path) -> Path:
    return make(folder / "model", words=True).weights.parent


def foreign(write: Callable[[Path], Any]) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        write(folder / "model")
        return folder / "model"

    return written


def packed(write: Callable[[Path], Any], pack: Callable[[Path, Path], Path], name: str) -> Any:
    def written(folder: Path) -> Path:
        unpacked = folder.with_name(folder.name + "-unpacked")
        write(unpacked)
        path = pack(unpacked, folder / name)
        shutil.rmtree(unpacked)
        return path

    return written


# Vectors ------------------------------------------------------------------------------------------


def vectors(name: str) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        path, rng = folder / name, np.random.default_rng(1)
        words = [f"word{i}" for i in range(40)]
        table = rng.normal(size=(40, 6)).astype(np.float32)
        text = "40 6\n" + "".join(
            f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, table, strict=True)
        )
        rows = b"".join(w.encode() + b" " + v.tobytes() for w, v in zip(words, table, strict=True))
        match name:
            case "v.npz":
                np.savez(path, words=np.array(words), vectors=table)
            case "v.txt":
                path.write_text(text, encoding="utf-8")
            case "v.txt.gz":
                path.write_bytes(gzip.compress(text.encode()))
            case "v.bin":
                path.write_bytes(b"40 6\n" + rows)
            case "v.bin.gz":
                path.write_bytes(gzip.compress(b"40 6\n" + rows))
        return path

    return written


def use_vectors(path: Path) -> None:
    found = StaticVectors.load(path)
    assert found.vectors.shape == (len(found.words), found.dim)
    found.row("word3")
    str(found.fingerprint)


# Stores, indexes, tasks, runs ---------------------------------------------------------------------


def kept(group: str, name: str) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        whole = copied(folder.with_name(folder.name + "-all"))
        found = shutil.move(whole / group / name, folder / name)
        shutil.rmtree(whole)
        return Path(found)

    return written


def use_store(path: Path) -> str:
    store = Store.open(path)
    if damages := store.verify().damages:
        raise FormatError(str(damages[0]))
    found = [(e.words, e.layers) for e in store]
    again = [store.get(words) for words, _ in found]
    looked_up = [e.layers for e in again if e is not None]
    parts = [part for pair in found for part in pair]
    return digest(store.keep, store.precision, store.dim, *parts, *looked_up)


def new_index(folder: Path) -> Path:
    model = Embedder.load(BEFORE / "models" / "characters", device="cpu")
    lines = (BEFORE / "data" / "lines.txt").read_text(encoding="utf-8").splitlines()
    Index.build([line.split() for line in lines if line], model, folder / "index")
    return folder / "index"


def use_index(path: Path) -> str:
    index = Index.open(path)
    if hasattr(index, "verify") and (damages := index.verify().damages):
        raise FormatError(str(damages[0]))
    words = sorted(index.words)
    uses = [index.uses(word) for word in words]
    size = (index.manifest.n_layers, index.manifest.dim)
    asked = np.random.default_rng(0).normal(size=size).astype(np.float32)
    near = index.neighbors_of(asked, None, 5)
    senses = [index.senses(word) for word in words[:2]]
    return digest(index.n_uses, index.n_sentences, words, uses, near, senses)


def new_task(folder: Path) -> Path:
    fit(tagging_config(epochs=1), tagged(8, 1), tagged(4, 2), folder / "run", device="cpu")
    shutil.rmtree(folder / "run" / "tensorboard", ignore_errors=True)  # nobody reads these two
    (folder / "run" / "log.jsonl").unlink()
    return folder / "run"


def use_task(path: Path) -> str:
    model = TaskModel.load(path, device="cpu")
    records = [read_record(epoch) for epoch in sorted((path / "checkpoints").iterdir())]
    assert model.training is False
    weights = [p.detach().numpy() for p in model.parameters()]
    return digest(read_saved(path), records, *weights)


class Taken(dict[str, Any]):
    """Whatever a checkpoint gives back, and whoever it is given back to."""

    state: ClassVar[dict[Any, Any]] = {}

    def load_state_dict(self, kept: Any) -> None:
        self.update(kept)

    restore = load_state_dict


def use_run(path: Path) -> None:
    read_run(path)
    use_model(path)
    world = SimpleNamespace(size=1, rank=0, first=False)
    loop = SimpleNamespace(world=world, optimizers=[Taken()], objective=Taken())
    RunFolder(path, keep=2).resume(cast(Any, loop))


# Texts and data of tasks --------------------------------------------------------------------------

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def text(ending: str) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        path = folder / f"text{ending}"
        lines = "".join(f"line {i} of the naïve text 東京\n" for i in range(400))
        path.write_bytes(PACKERS[ending](lines.encode()))
        return path

    return written


def use_text(path: Path) -> None:
    for _ in read_lines(path):
        pass


def data(name: str) -> Callable[[Path], Path]:
    return lambda folder: Path(shutil.copy(BEFORE / "data" / name, folder / name))


def quoted(folder: Path) -> Path:
    path = folder / "texts.csv"
    rows = "".join(f'{i % 2},"text {i}, ""naïve"" 東京"\n' for i in range(100))
    path.write_text(f"label,review\n{rows}", encoding="utf-8")
    return path


def drained(read: Callable[[Path], Any]) -> Callable[[Path], None]:
    def use(path: Path) -> None:
        found = read(path)
        for _ in getattr(found, "examples", found):
            pass

    return use


READERS: dict[str, Subject] = {
    "native, version 1": Subject(old_model("adaptive"), use_model),
    "native, characters": Subject(new_model("characters"), use_model),
    "native, adaptive": Subject(new_model("adaptive"), use_model),
    "native, dictionary": Subject(new_model("dictionary"), use_model),
    "native, Transformer": Subject(new_model("transformer"), use_model),
    "HDF5 and options": Subject(hdf5, use_model),
    "TensorFlow bundle": Subject(foreign(foreign_models.make_bilm_tf), use_model),
    "AllenNLP tar.gz": Subject(
        packed(foreign_models.make_transformer, foreign_models.pack_tar, "model.tar.gz"), use_model
    ),
    "AllenNLP task folder": Subject(foreign(foreign_models.make_task), use_model),
    "ELMoForManyLangs folder": Subject(foreign(foreign_models.make_manylangs), use_model),
    "ELMoForManyLangs zip": Subject(
        packed(foreign_models.make_manylangs, foreign_models.pack_zip, "144.zip"), use_model
    ),
    "old torch files": Subject(
        foreign(lambda folder: foreign_models.make_manylangs(folder, old=True)), use_model
    ),
    **{f"vectors {n}": Subject(vectors(n), use_vectors) for n in (
        "v.npz", "v.txt", "v.txt.gz", "v.bin", "v.bin.gz",
    )},
    "store, float16": Subject(kept("stores", "all-float16"), use_store, checked=True),
    "store, projected": Subject(kept("stores", "pca-float32"), use_store, checked=True),
    "store, int8": Subject(kept("stores", "mix-int8"), use_store, checked=True),
    "index, new": Subject(new_index, use_index, checked=True),
    "index, of the version before": Subject(kept("indexes", "layers"), use_index),
    "task folder": Subject(kept("tasks", "ner-none"), use_task),
    "task folder, new": Subject(new_task, use_task, checked=True),
    "run folder": Subject(kept("runs", "words"), use_run),
    **{f"text {ending}": Subject(text(ending), use_text) for ending in (
        ".txt", ".gz", ".xz", ".zst",
    )},
    "data, columns": Subject(data("ner-train.txt"), drained(read_columns)),
    "data, CoNLL-U": Subject(data("pos-train.conllu"), drained(read_conllu)),
    "data, labeled texts": Subject(quoted, drained(read_labeled_texts)),
    "data, pairs": Subject(data("entailment-train.tsv"), drained(read_pairs)),
    "data, SQuAD": Subject(
        data("qa-train.json"), drained(lambda path: read_squad(path, max_words=400))
    ),
    "data, trees": Subject(data("sst-train.trees"), drained(read_trees)),
    "data, Raganato": Subject(test_raganato.write, drained(read_raganato)),
    "data, SemCor": Subject(
        lambda folder: test_semcor.write(folder, test_semcor.TOKENS), drained(read_semcor)
    ),
    "data, WiC": Subject(
        lambda folder: test_wic.write(folder, test_wic.LINE, test_wic.LINE), drained(read_wic)
    ),
}  # fmt: skip
