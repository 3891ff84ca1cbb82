"""What a version of elmore makes of the fixtures. The version before has answered once, and its
answers are kept in expected.json and expected.npz; every later one is asked the same.

An answer is a dict. Values that are arrays of floats were computed, and may differ in their last
bits from one CPU to another. All other values (texts, counts, digests of what was read) are exact.
Every function works in the current folder, which holds a copy of the fixtures, and changes it.
"""

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from elmore import Embedder, Store
from elmore.cli.main import main
from elmore.search.index import Index
from tests.before import commands

Answer = dict[str, Any]
HERE = Path(__file__).parent
_STEP = 4

SENTENCES: list[list[str]] = [
    ["The", "river", "bank", "."],
    ["x" * 40, "", "naïve", "東京", "\ud800", "\x00\x07"],
    ["w3"],
    [f"w{i % 17}" for i in range(24)],
    [],
    ["<S>", "literal", "</S>", "<UNK>", "the", "the", "今"],
]


def copied(target: Path) -> Path:
    """The fixtures in a folder of their own, where they may be changed."""
    shutil.copytree(HERE, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for run in target.glob("runs/*/run.json"):
        text = run.read_text(encoding="utf-8")
        run.write_text(text.replace(commands.ROOT, str(target.resolve())), encoding="utf-8")
    return target


def run(*arguments: str) -> str:
    """A command line that must succeed; what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = main(list(arguments))
    assert code == 0, f"elmore {' '.join(arguments)} ended with {code}"
    return printed.getvalue()


# Digests and arrays -------------------------------------------------------------------------------


def digest_array(array: NDArray[Any]) -> str:
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


NEWER = ("seconds", "sha256", "checksum")
"""Of progress.json: what differs from run to run, and what the version before did not write."""


def digest_files(folder: Path, *patterns: str) -> dict[str, str]:
    """Of files below a folder; lock files, which name a process, are left out."""
    paths = {path for pattern in patterns or ("*",) for path in folder.rglob(pattern)}
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
        if path.is_file() and "lock" not in path.name
    }


def flat(arrays: list[NDArray[Any]]) -> NDArray[np.float32]:
    """One after another in a row."""
    parts = [np.asarray(array, np.float32).ravel() for array in arrays]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def old_name(tensor: str) -> str:
    """What the version before called a tensor of a task."""
    before = tensor.replace("encoder.sources.", "encoder.parts.")
    return before.replace(".trainable.model.", ".elmo.bilm.")


def tensors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The names and shapes in a safetensors file, and all its numbers."""
    found = sorted((old_name(name), value) for name, value in load_file(path).items())
    return [f"{name} {value.shape}" for name, value in found], flat([v for _, v in found])


def every(step: int, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """One number in so many: enough to notice a run that went another way, and small to keep."""
    return numbers[::step]


def log_of(folder: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The names in every line of a run's log, and the numbers; without the clock's."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    kept = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return [" ".join(row) for row in kept], flat([np.array(list(row.values())) for row in kept])


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").iterdir())


# Models -------------------------------------------------------------------------------------------


def native_config(folder: Path) -> Any:
    """As the version before would have written it: format 1 had no `kind`, no
    `heads` and no `trained_on`."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    softmax = config.pop("heads", {}).get("softmax", {})
    config["model"].pop("kind", None)
    config.pop("trained_on", None)
    adaptive = softmax if softmax.get("kind") == "adaptive" else None
    return {"adaptive": adaptive, **config, "version": 1}


def softmax_file(folder: Path) -> Path:
    """In format 1 it lay beside the weights."""
    heads = folder / "heads"
    return (heads if heads.is_dir() else folder) / "softmax.safetensors"


def native_folder(folder: Path) -> Answer:
    """Everything in it, exactly."""
    config = native_config(folder)
    arrays = {
        path.name: {name: digest_array(array) for name, array in sorted(load_file(path).items())}
        for path in sorted(folder.rglob("*.safetensors"), key=lambda path: path.name)
    }
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))}
    return {"config": config, "tensors": arrays, "texts": texts}


def model(name: str) -> Answer:
    """Its fingerprint, its vectors, what its softmax predicts; and written again it is the same."""
    folder = f"models/{name}"
    embedder = Embedder.load(folder, device="cpu")
    run("convert", folder, "again")
    answer: Answer = {
        "fingerprint": embedder.fingerprint,
        "size": [embedder.n_layers, embedder.dim],
        "the same when written again": native_folder(Path("again")) == native_folder(Path(folder)),
        "vectors": flat([found.layers for found in embedder.embed(SENTENCES)]),
    }
    if name in commands.WITH_SOFTMAX:
        scored = run("evaluate", folder, "data/valid.txt", "--per-sentence").splitlines()
        rows = [json.loads(line) for line in scored]
        answer["scored sentences"] = [[row["sentence"], row["unknown"]] for row in rows]
        answer["log probabilities"] = flat(
            [np.array([row[k] for k in ("forward", "backward")]) for row in rows]
        )
    return answer


def foreign(name: str) -> Answer:
    """A published format becomes the same native folder."""
    run("convert", f"foreign/{commands.FOREIGN[name]}", "converted")
    same = native_folder(Path("converted")) == native_folder(Path("models") / name)
    return {"as it was": same, "fingerprint": Embedder.load("converted").fingerprint}


# Stores, indexes, dumps ---------------------------------------------------------------------------


def store(name: str) -> Answer:
    """What it holds; that nothing is computed twice; and what is added to it."""
    folder = Path("stores") / name
    found = Store.open(folder)
    answer: Answer = {
        "fingerprints": [found.fingerprint, found.vectors_fingerprint],
        "kept": [found.keep.model_dump(mode="json"), found.precision, found.n_layers, found.dim],
        "sentences": [embedding.words for embedding in found],
        "vectors": [digest_array(embedding.layers) for embedding in found],
        "batch": digest_array(found.batch(SENTENCES[:1]).layers.numpy()),
    }
    run("store", "verify", str(folder))
    before, n_before = digest_files(folder), len(found)
    run("store", "fill", "data/lines.txt", str(folder), *commands.STORES[name])
    answer["left alone"] = digest_files(folder) == before
    run("store", "fill", "data/valid.txt", str(folder), *commands.STORES[name])
    added = list(Store.open(folder))[n_before:]
    answer["added"] = [embedding.words for embedding in added]
    answer["added vectors"] = flat([embedding.layers for embedding in added])
    return answer


def searched(index: Index) -> Answer:
    """What an index says to a few questions."""
    sentence = ["the", "money", "near", "the", "bank", "."]
    asked: list[tuple[str, list[Any]]] = [
        ("same word", index.neighbors(sentence, 4, 4)),
        ("any word", index.neighbors(sentence, 1, 5, same_word=False)),
    ]
    if index.layers:
        asked += [("layer 1", index.neighbors(sentence, 4, 4, layer=1))]
    senses = [index.senses(word) for word in ("bank", "the")]
    static = index.static_neighbors("bank", 4)
    return {
        "counts": [index.n_uses, index.n_sentences, index.words],
        "uses": [[list(use.words), use.position] for use in index.uses("bank")],
        "neighbors": {
            name: [[list(n.use.words), n.use.position] for n in near] for name, near in asked
        },
        "cosines": flat([np.array([n.score for n in near]) for _, near in asked]),
        "static": [n.word for n in static],
        "static cosines": flat([np.array([n.score for n in static])]),
        "senses": [
            [
                [sense.size, [list(use.words) for use in sense.typical], sense.characteristic]
                for sense in found.senses
            ]
            for found in senses
        ],
        "separations": flat([np.array([found.separation for found in senses])]),
    }


def index(name: str) -> Answer:
    """A finished one is asked; one that is not is gone on with first. Then it is changed."""
    folder, answer = f"indexes/{name}", Answer()
    if name == "unfinished":
        begun = Index.open(folder)
        answer["so far"] = [begun.n_uses, begun.n_sentences, begun.words]
        run(*commands.INDEXES[name], "--output", folder)
    embedder = Embedder.load("models/characters", device="cpu")
    found = Index.open(folder, embedder)
    answer |= searched(found)
    shown = run(
        "neighbors", folder, "the money near the bank .", "--word", "bank", "--model",
        "models/characters", "-k", "3",
    )  # fmt: skip
    answer["lines shown"] = len(shown.splitlines())
    counts = [found.add([["the", "bank", "behind", "the", "river", "bank"], ["play", "ball"]])]
    counts += [found.delete([list(found.uses("bank")[0].words), ["not", "there"]])]
    found.compact()
    return answer | {"changes": counts, **{f"then {k}": v for k, v in searched(found).items()}}


def read_dump(path: Path) -> Answer:
    """The names in it, exactly, and its numbers."""
    match path.suffix:
        case ".hdf5":
            with h5py.File(path) as file:
                named = {name: file[name][()] for name in sorted(file)}
        case ".npz":
            with np.load(path) as archive:
                named = {name: archive[name] for name in sorted(archive)}
        case _:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in lines]
            named = {str(row["index"]): np.array(row["layers"]) for row in rows}
            named["words"] = np.array(json.dumps([row["words"] for row in rows]))
    numbers = {name: array for name, array in named.items() if array.dtype.kind == "f"}
    texts = {name: str(array.tolist()) for name, array in named.items() if name not in numbers}
    shapes = {name: list(array.shape) for name, array in numbers.items()}
    return {"shapes": shapes, "texts": texts, "numbers": flat(list(numbers.values()))}


def dump(name: str) -> Answer:
    """A finished one is known for what it is, an unfinished one is gone on with."""
    path, (before, after) = Path("dumps") / name, commands.DUMPS[name]
    if name == "unfinished.hdf5":
        with h5py.File("dumps/unfinished.hdf5.partial/00000000.hdf5") as part:
            kept = {line: digest_array(part[line][()]) for line in sorted(part)}
        run(*before, str(path), *after, "--resume")
        with h5py.File(path) as file:
            same = {line: digest_array(file[line][()]) == kept[line] for line in kept}
        return {"kept lines": kept, "still there": same, **read_dump(path)}
    answer = read_dump(path)
    if path.suffix == ".hdf5":
        old = path.read_bytes()
        run(*before, str(path), *after, "--resume")
        answer["left alone"] = path.read_bytes() == old
    again = path.with_name(f"again{path.suffix}")
    run(*before, str(again), *after)
    return answer | {f"again {key}": value for key, value in read_dump(again).items()}


# Training -----------------------------------------------------------------------------------------


def pretraining(name: str) -> Answer:
    """A stopped run is a model already; then it goes on to its end."""
    folder = Path("runs") / name
    answer: Answer = {"stopped": Embedder.load(folder).fingerprint}
    run(*commands.RUNS[name], "--output", str(folder), "--resume")
    return answer | trained(folder)


def trained(folder: Path) -> Answer:
    """What a run has come to."""
    last = newest(folder)
    names, weights = tensors(last / "model.safetensors")
    softmax_names, softmax = tensors(softmax_file(last))
    log_names, log = log_of(folder)
    best = folder / "best"
    return {
        "checkpoint": [last.name, best.read_text(encoding="utf-8") if best.exists() else None],
        "names": [names, softmax_names, log_names],
        "config": native_config(last),
        "vocabulary": (folder / "vocab.txt").read_text(encoding="utf-8"),
        "weights": every(_STEP, weights),
        "softmax": every(_STEP, softmax),
        "log": log,
    }


def task(name: str) -> Answer:
    """Predictions and scores; a stopped run goes on first."""
    command, folder = commands.TASKS[name], Path("tasks") / name
    run(*command, "--output", str(folder), "--resume")
    answer = task_answers(commands.task_name(command), folder)
    if name not in commands.TASK_STOPS:  # its weights were read, not computed
        answer["log"], answer["weights"] = answer["log"].tolist(), digest_array(answer["weights"])
        return answer
    return answer | {"weights": every(_STEP, answer["weights"])}


def task_answers(kind: str, folder: Path) -> Answer:
    """What a trained task says to new text."""
    given = ["--model", str(folder), "--quiet"]
    predicted = run("task", "predict", kind, commands.data_of(kind, "plain"), *given)
    rows = [json.loads(line) for line in predicted.splitlines()]
    sure = [row.pop("probability") for row in rows if "probability" in row]
    last = newest(folder)
    names, weights = tensors(last / "model.safetensors")
    log_names, log = log_of(folder)
    progress = json.loads((last / "progress.json").read_text(encoding="utf-8"))
    return {
        "predictions": rows,
        "probabilities": flat([np.array(sure)]),
        "scores": run("task", "evaluate", kind, "--test", commands.data_of(kind, "test"), *given),
        "progress": {k: v for k, v in progress.items() if k not in NEWER},
        "best": (folder / "best").read_text(encoding="utf-8"),
        "names": [names, log_names],
        "weights": weights,
        "log": log,
    }


def comparison(name: str) -> Answer:
    """Trainings that are done stay as they are; the others are done now."""
    folder = Path(name)
    done = digest_files(folder / "results")
    run(*commands.COMPARE, "--output", str(folder))
    now = digest_files(folder / "results")
    return {
        "were done": list(done),
        "are done": list(now),
        "left alone": {path: now[path] == digest for path, digest in done.items()},
        **compared(folder),
    }


def compared(folder: Path) -> Answer:
    """The table without seconds and remarks; the learned mixes apart: they are computed."""
    table = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    table.pop("notes")
    table["settings"]["fit"].pop("tuning", None)  # how models are fine-tuned: later versions'
    for later in ("precision", "warmup_steps", "cosine"):  # later versions', off here as before
        table["settings"]["fit"].pop(later, None)
    for way in ("lm", "gpt"):
        table["settings"]["fit"]["encoder"].pop(way, None)
    mixes: list[float] = []
    for row in table["rows"]:
        for newer in ("seconds", "peak"):
            row.pop(newer)
        for mix in (mix for seed in row.pop("mixes") for mix in seed):
            mixes += [*mix["weights"], mix["gamma"]]
    return {"table": table, "mixes": flat([np.array(mixes)])}


GROUPS: dict[str, tuple[Callable[[str], Answer], list[str]]] = {
    "models": (model, commands.MODELS),
    "foreign": (foreign, commands.FOREIGN_KEPT),
    "stores": (store, list(commands.STORES)),
    "indexes": (index, list(commands.INDEXES)),
    "dumps": (dump, list(commands.DUMPS)),
    "runs": (pretraining, list(commands.RUNS)),
    "tasks": (task, list(commands.TASKS)),
    "compare": (comparison, ["compare"]),
}
CASES = [(group, name) for group, (_, names) in GROUPS.items() for name in names]


def answer(group: str, name: str) -> Answer:
    return GROUPS[group][0](name)


def is_computed(value: object) -> bool:
    return isinstance(value, np.ndarray)
