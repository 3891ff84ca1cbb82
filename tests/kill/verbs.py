"""What the campaign kills: every verb that writes, on data so small that a run takes a moment.

A verb is its library function; commits are made as often as possible, so that kills hit them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmore.checkpoint.sources import load, save
from elmore.config import override
from elmore.dump.config import DumpConfig, partial_folder
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.errors import ElmoreError
from elmore.search import corpus_embedding
from elmore.search.index import Index
from elmore.store import fill as filling
from elmore.store.store import Store
from elmore.tasks.compare.compare import compare
from elmore.tasks.compare.trials import CompareConfig, read_outcome
from elmore.tasks.fit import fit
from elmore.tasks.model import TaskModel
from elmore.tasks.recipes import ner
from elmore.tasks.saved import best_epoch, epochs
from elmore.train.run_folder import checkpoints
from tests.pretrain import tiny_runs
from tests.search.corpora import corpus
from tests.store.waves import D, sentences, wave, waves
from tests.tasks.tiny_data import write_columns
from tests.tasks.tiny_tasks import tagged, tagging_config
from tests.tiny_models import make

Say = Callable[[int], None]
"""Called by a running verb: so much is committed now."""
Result = dict[str, Any]


@dataclass(frozen=True)
class Verb:
    """A verb at work in a folder."""

    name: str
    run: Callable[[Path, Say], None]
    """From the beginning, or from where an earlier life was killed, to the end."""
    committed: Callable[[Path, Result], int]
    """Open what is there; an error if something is damaged or not that of the unkilled run.
    Returns how much there is."""
    result: Callable[[Path], Result]
    """Of a finished run: what must be equal."""


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def inside(found: Result, whole: Result) -> int:
    """The number of things found, each of which must be the unkilled run's."""
    for name, value in found.items():
        assert whole[name] == value, f"{name} differs"
    return len(found)


# embed ------------------------------------------------------------------------------------------

LINES = [f"sentence {i} says {'again ' * (i % 9)}." if i % 13 else "" for i in range(160)]
OFTEN = DumpConfig(batch_words=16, part_seconds=0.0, resume=True)


def embed(shared: Path) -> Verb:
    embedder = Embedder.load(make(shared / "model").weights, device="cpu")

    def run(folder: Path, say: Say) -> None:
        dump(embedder, LINES, folder / "a.hdf5", OFTEN)

    def datasets(path: Path) -> Result:
        with h5py.File(path) as file:
            return {name: digest(file[name][...]) for name in file if name.isdecimal()}

    def committed(folder: Path, whole: Result) -> int:
        target = folder / "a.hdf5"
        parts = sorted(partial_folder(target).glob("[0-9]*.hdf5"))
        found = [inside(datasets(path), whole) for path in parts if not target.exists()]
        return inside(datasets(target), whole) if target.exists() else sum(found)

    def result(folder: Path) -> Result:
        assert [path.name for path in folder.iterdir()] == ["a.hdf5"]
        return datasets(folder / "a.hdf5")

    return Verb("embed", run, committed, result)


# store fill -------------------------------------------------------------------------------------

STORED = sentences(400)


def store_fill(shared: Path) -> Verb:
    def run(folder: Path, say: Say) -> None:
        filling.COMMIT_SENTENCES = 10
        path = folder / "s"
        store = Store.open(path, waves()) if path.exists() else Store.create(path, waves())
        store.fill(STORED, lambda _: say(len(Store.open(path))))

    def found(folder: Path) -> Result:
        store = Store.open(folder / "s")
        assert store.verify().damages == []
        return {f"{i} {e.words}": digest(e.layers) for i, e in enumerate(store)}

    def committed(folder: Path, whole: Result) -> int:
        return inside(found(folder), whole) if (folder / "s").exists() else 0

    def result(folder: Path) -> Result:
        assert not list((folder / "s").glob(".*"))
        kept = found(folder)
        assert list(kept.values()) == [digest(wave(words)) for words in STORED]
        return kept

    return Verb("store fill", run, committed, result)


# index ------------------------------------------------------------------------------------------

INDEXED, ADDED = corpus(30), corpus(60)[30:]


def index(shared: Path) -> Verb:
    def run(folder: Path, say: Say) -> None:
        corpus_embedding.COMMIT_BYTES = 6 * 5 * D * 4
        path = folder / "i"
        if path.exists() and Index.open(path).manifest.reading.complete:
            built = Index.open(path, waves())
        else:
            built = Index.build(INDEXED, waves(), path, max_uses=50)
        for begin in range(0, len(ADDED), 6):
            built.add(ADDED[begin : begin + 6], embedder=waves())

    def found(folder: Path) -> Result:
        opened = Index.open(folder / "i")
        uses: Iterator[tuple[str, int, Any]] = (
            (word, i, use) for word in opened.words for i, use in enumerate(opened.uses(word))
        )
        return {
            f"{word} {use.position} {use.words}": digest(opened._snapshot.vectors(word, "mix")[i])
            for word, i, use in uses
        }

    def committed(folder: Path, whole: Result) -> int:
        return inside(found(folder), whole) if (folder / "i").exists() else 0

    return Verb("index", run, committed, found)


# pretrain ---------------------------------------------------------------------------------------


def pretrain(shared: Path) -> Verb:
    files = tiny_runs.corpus(shared / "text", n_sentences=30)

    def run(folder: Path, say: Say) -> None:
        tiny_runs.train("rows", files, folder / "run")

    def committed(folder: Path, whole: Result) -> int:
        kept = checkpoints(folder / "run")
        for path in kept:
            load(path)
            torch.load(path / "training.pt", weights_only=True)
        logged = tiny_runs.logged(folder / "run")
        assert logged == whole["log"][: len(logged)]
        return int(kept[-1].name.removeprefix("step-")) if kept else 0

    def result(folder: Path) -> Result:
        return {
            "log": tiny_runs.logged(folder / "run"),
            "weights": tiny_runs.weights(folder / "run"),
        }

    return Verb("pretrain", run, committed, result)


# task train -------------------------------------------------------------------------------------


def task_train(shared: Path) -> Verb:
    config, train, dev = tagging_config(epochs=4), tagged(24, 0), tagged(8, 1)

    def run(folder: Path, say: Say) -> None:
        fit(config, train, dev, folder / "task", resume=True, device="cpu")

    def committed(folder: Path, whole: Result) -> int:
        kept = epochs(folder / "task")
        if kept and (folder / "task" / "best").exists():
            TaskModel.load(folder / "task", device="cpu")
        return int(kept[-1].name.removeprefix("epoch-")) if kept else 0

    def result(folder: Path) -> Result:
        best = best_epoch(folder / "task")
        log = (folder / "task" / "log.jsonl").read_text().splitlines()
        return {
            "best": best.name,
            "log": [{**json.loads(line), "seconds": 0} for line in log],
            "weights": (best / "model.safetensors").read_bytes(),
        }

    return Verb("task train", run, committed, result)


# compare ----------------------------------------------------------------------------------------

SMALL = ["epochs=2", "task.hidden=4", "batch=8", "encoder.own.word_dim=4"]


def comparison(shared: Path) -> Verb:
    shared.mkdir(parents=True, exist_ok=True)
    write_columns(shared)
    files = {name: shared / f"{name}.txt" for name in ("train", "dev", "test")}
    settings = {"task": "ner", "fit": override(ner(), SMALL), "encoders": ("none",), "seeds": 2}
    config = CompareConfig.model_validate({**settings, **files})

    def run(folder: Path, say: Say) -> None:
        assert not compare(config, folder / "out").failures

    def found(folder: Path) -> Result:
        paths = sorted((folder / "out" / "results").glob("*"))
        outcomes = {p.name: read_outcome(p) for p in paths if not p.name.startswith(".")}
        return {
            name: {k: v for k, v in outcome.model_dump().items() if k not in ("seconds", "peak")}
            for name, outcome in outcomes.items()
        }

    def committed(folder: Path, whole: Result) -> int:
        return inside(found(folder), whole)

    return Verb("compare", run, committed, found)


# convert ----------------------------------------------------------------------------------------


def convert(shared: Path) -> Verb:
    source = make(shared / "model").weights

    def opens(path: Path) -> bool:
        with suppress(ElmoreError):
            load(path)
            return True
        return False

    def run(folder: Path, say: Say) -> None:
        for turn in range(6):
            if not (folder / f"native{turn}").exists():
                save(load(source), folder / f"native{turn}")
        (folder / "hdf5").mkdir(exist_ok=True)
        if not opens(folder / "hdf5" / "weights.hdf5"):
            for path in (folder / "hdf5").glob("[!.]*"):  # a name that exists is never overwritten
                path.unlink()
            save(load(source), folder / "hdf5" / "weights.hdf5")

    def found(folder: Path) -> Result:
        named = [path for path in folder.rglob("*") if path.is_file()]
        whole = [p for p in named if "elmore-tmp" not in str(p.relative_to(folder))]
        return {str(path.relative_to(folder)): digest_of(path) for path in whole}

    def digest_of(path: Path) -> str:
        if path.suffix != ".hdf5":
            return hashlib.sha256(path.read_bytes()).hexdigest()
        names: dict[str, str] = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item: (
                    names.update({name: digest(item[...])})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
        return str(sorted(names.items()))

    def committed(folder: Path, whole: Result) -> int:
        for path in folder.glob("native*"):
            load(path)
        return inside({n: v for n, v in found(folder).items() if "hdf5" not in n}, whole)

    return Verb("convert", run, committed, found)


VERBS: dict[str, Callable[[Path], Verb]] = {
    "embed": embed,
    "store fill": store_fill,
    "index": index,
    "pretrain": pretrain,
    "task train": task_train,
    "compare": comparison,
    "convert": convert,
}
