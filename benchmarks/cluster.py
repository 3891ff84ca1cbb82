"""Ray beside one process, on one machine. Writes results/cluster.json, a part per command.

python benchmarks/cluster.py same --text FILE    # two nodes; a worker is killed, then a node
python benchmarks/cluster.py speed --text FILE   # on two quiet cores
python benchmarks/cluster.py writer --text FILE  # vectors that need no computing: how many
                                                 # words per second the writer takes in
"""

# L layers, n words, D vector dim
import argparse
import hashlib
import json
import lzma
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmore.cluster.address import Place
from elmore.cluster.pooled_embedder import PooledEmbedder, embedding_pool, one_thread
from elmore.cluster.ray_pool import Load, RayPool
from elmore.cluster.shard import EmbedShard, Layers, Shard
from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.search import corpus_embedding
from elmore.search.index import Index
from elmore.store import fill
from elmore.store.precision import PRECISIONS
from elmore.store.store import Store
from elmore.text.batching import BATCH_WORDS

HERE = Path(__file__).resolve().parent
WORKERS = 2
NODE = {"num_cpus": 1, "object_store_memory": 1_000_000_000, "include_dashboard": False}
KILL_AT = 3  # shards that were started
Sentences = list[list[str]]
Verb = Callable[[Embedder, Sentences, Path], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["same", "speed", "rates", "writer"])
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="a sentence per line")
    parser.add_argument("--model", default="small-en")
    parser.add_argument("--sentences", type=int, default=20_000, help="for `same`")
    parser.add_argument("--longest", type=int, default=12, help="words in these sentences")
    parser.add_argument("--words", type=int, default=200_000, help="for the other parts")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=WORKERS, help="of the one process")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "cluster.json")
    options = parser.parse_args()
    # Commits then depend on bytes alone, so that two runs of different speed make the same files.
    fill.COMMIT_SECONDS = corpus_embedding.COMMIT_SECONDS = math.inf
    torch.set_num_threads(options.threads if options.part in ("same", "speed") else 1)
    embedder = Embedder.load(options.model, device="cpu")
    text = read(options.text)
    with tempfile.TemporaryDirectory() as scratch:
        match options.part:
            case "same":
                short = (words for words in text if len(words) <= options.longest)
                found = same(embedder, list(islice(short, options.sentences)), Path(scratch))
            case "speed":
                found = speed(embedder, first(text, options.words), options, Path(scratch))
            case "rates":
                found = rates(options.model, first(text, options.words))
            case _:
                found = writer(embedder, first(text, options.words), Path(scratch))
    before = json.loads(options.output.read_text()) if options.output.exists() else {}
    options.output.write_text(json.dumps(before | {options.part: found}, indent=1) + "\n")


def read(paths: list[Path]) -> Iterator[list[str]]:
    for path in paths:
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
            yield from filter(None, (line.split() for line in file))


def first(text: Iterator[list[str]], n_words: int) -> Sentences:
    found: Sentences = []
    while n_words > 0:
        found.append(next(text))
        n_words -= len(found[-1])
    return found


def told(**figures: Any) -> dict[str, Any]:
    print(json.dumps(figures), flush=True)
    return figures


# What is written --------------------------------------------------------------------------------


def embed(source: Embedder, text: Sentences, folder: Path, kind: Any = "npz") -> object:
    folder.mkdir()
    lines = (" ".join(words) for words in text)
    return dump(source, lines, folder / f"vectors.{kind}", DumpConfig(format=kind))


def store(source: Embedder, text: Sentences, folder: Path, precision: Any = "int8") -> object:
    return Store.create(folder, source, precision=precision).fill(text)


def index(source: Embedder, text: Sentences, folder: Path) -> object:
    return Index.build(text, source, folder, words=20_000)


VERBS: dict[str, Verb] = {"embed": embed, "store": store, "index": index}


def digest(folder: Path) -> str:
    """Of names and bytes; the lock tells who wrote last, and when."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name != "lock":
            found.update(f"{path.relative_to(folder)}\n".encode())
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def written(verb: Verb, source: Embedder, text: Sentences, folder: Path) -> tuple[str, float]:
    """The digest, and the seconds without it. The files are removed."""
    with emptied(folder):
        _, seconds = timed(lambda: verb(source, text, folder))
        return digest(folder), seconds


def timed(run: Callable[[], object]) -> tuple[object, float]:
    start = time.monotonic()
    return run(), time.monotonic() - start


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    yield folder
    shutil.rmtree(folder)


# The same bytes ---------------------------------------------------------------------------------


def same(embedder: Embedder, text: Sentences, scratch: Path) -> dict[str, Any]:
    from ray.cluster_utils import Cluster

    runs, n_words = [], sum(map(len, text))
    start = time.monotonic()
    cluster = Cluster()
    another(cluster)  # the head
    nodes = [another(cluster)]
    runs.append(told(cluster_seconds=round(time.monotonic() - start, 1)))
    wanted = {}
    for name, verb in VERBS.items():
        wanted[name], seconds = written(verb, embedder, text, scratch / name)
        runs.append(told(killed="one process", verb=name, seconds=round(seconds, 1)))
    place = Place(address=cluster.address, workers=WORKERS)
    kills: dict[str, Callable[[int], object]] = {
        "a worker": lambda pid: os.kill(pid, signal.SIGKILL),
        "a node": lambda _: cluster.remove_node(nodes.pop(), allow_graceful=False),
    }
    for killed, kill in kills.items():
        with Killing(embedder, place, kill, cluster.head_node.node_id) as pool:
            for name, verb in VERBS.items():
                if not nodes:
                    nodes.append(another(cluster))
                pool.arm()
                target = scratch / f"{name} {killed}"
                found, seconds = written(verb, PooledEmbedder(embedder, pool), text, target)
                row = {"killed": killed, "verb": name, "seconds": round(seconds, 1)}
                runs.append(told(**row, lost=pool.lost, same=found == wanted[name]))
    cluster.shutdown()
    return {"sentences": len(text), "words": n_words, "runs": runs}


def another(cluster: Any) -> Any:
    """A node. Ray gives up after half a minute, which a busy machine may need more than once."""
    for attempt in range(5):
        try:
            return cluster.add_node(**NODE)
        except Exception as error:  # Ray has no kind of its own for this
            told(attempt=attempt, error=str(error).splitlines()[0])
    raise SystemExit("No node has started.")


class Killing(RayPool[Shard, Layers]):
    """Kills something while a worker beside the head has shards."""

    def __init__(self, embedder: Embedder, place: Place, kill: Callable[[int], object], head: str):
        super().__init__(EmbedShard(embedder), place, Load(work_bytes=0, result_bytes=0))
        self._kill, self._head = kill, head
        self._started = self._pid = self.lost = 0

    def arm(self) -> None:
        """Before a run: find the worker."""
        wait_for_all(self)
        places = {h: self._ray.get(h.actor.__ray_call__.remote(where)) for h in self._hands}
        self._victim = next(hand for hand, (_, node) in places.items() if node != self._head)
        self._pid = places[self._victim][0]
        self._started = self.lost = 0

    def start(self, job: Shard) -> None:
        super().start(job)
        self._started += 1
        if self._started >= KILL_AT and self._victim.jobs and self._pid:
            self._kill(self._pid)
            self._pid = 0

    def finished(self) -> list[tuple[Shard, Layers | None]]:
        found = super().finished()
        self.lost += sum(layers is None for _, layers in found)
        return found


def where(_: object) -> tuple[int, str]:
    import ray

    return os.getpid(), ray.get_runtime_context().get_node_id()


def wait_for_all(pool: RayPool[Any, Any]) -> None:
    while not all(hand.ready for hand in pool._hands):
        pool.finished()


# Speed ------------------------------------------------------------------------------------------


def speed(
    embedder: Embedder, text: Sentences, options: argparse.Namespace, scratch: Path
) -> dict[str, Any]:
    """Turn by turn, so that what disturbs one disturbs the other."""
    n_words = sum(map(len, text))
    found: dict[str, Any] = {"words": n_words, "turns": []}
    place = Place(workers=WORKERS)
    start = time.monotonic()
    with embedding_pool(place, embedder, BATCH_WORDS) as pool:
        wait_for_all(pool)
        found["start_seconds"] = told(start=round(time.monotonic() - start, 1))["start"]
        pooled = PooledEmbedder(embedder, pool)
        for source in (embedder, pooled):  # builds what is built at first use
            list(source.stream(text[:2000]))
        for number in range(options.rounds):
            for name, verb in (("embed", hdf5), ("store", store)):
                turn: dict[str, Any] = {"verb": name}
                for who, source, alone in (
                    ("one", embedder, nullcontext),
                    ("ray", pooled, one_thread),
                ):
                    with emptied(scratch / who) as folder, alone():
                        before = cpu_seconds()
                        _, seconds = timed(lambda: verb(source, text, folder))  # noqa: B023
                    turn |= {who: round(seconds, 2), f"{who}_cpu": round(cpu_seconds() - before, 2)}
                found["turns"].append(told(round=number, **turn))
        found["megabytes"] = told(**megabytes())
    return found


def hdf5(source: Embedder, text: Sentences, folder: Path) -> object:
    return embed(source, text, folder, "hdf5")


def rates(model: str, text: Sentences) -> dict[str, float]:
    """Words per second of one thread that only computes."""
    found = {}
    for precision in ("float32", "int8"):
        embedder = Embedder.load(model, device="cpu", precision=precision)
        list(embedder.stream(text[:1000]))
        start = time.process_time()
        n_words = sum(len(embedding) for embedding in embedder.stream(text[1000:]))
        found[precision] = round(n_words / (time.process_time() - start))
    return told(**found)


def megabytes() -> dict[str, int]:
    """Memory of the processes that this one has started; what they share is divided among them."""
    found = {"workers": 0, "ray": 0}
    for process in descendants():
        try:
            is_worker = b"ray::Worker" in (process / "cmdline").read_bytes()
            lines = (process / "smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        pss = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        found["workers" if is_worker else "ray"] += pss // 1024
    return found


def cpu_seconds() -> float:
    """Of this process and all that it has started."""
    ticks = [int(n) for process in descendants() for n in stat(process)[11:13]]  # user, system
    return time.process_time() + sum(ticks) / os.sysconf("SC_CLK_TCK")


def descendants() -> list[Path]:
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    parents = {path.name: stat(path)[1] for path in processes}
    ours, before = {str(os.getpid())}, 0
    while len(ours) > before:
        before = len(ours)
        ours |= {name for name, parent in parents.items() if parent in ours}
    return [Path("/proc") / name for name in ours - {str(os.getpid())}]


def stat(process: Path) -> list[str]:
    """What follows the name."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["", "", *"00000000000"]


# The writer -------------------------------------------------------------------------------------


class Ready:
    """Vectors without computing, of any size."""

    def __init__(self, n_layers: int, dim: int):
        self.n_layers, self.dim = n_layers, dim

    def __call__(self, shard: Shard) -> Layers:
        if "vectors" not in self.__dict__:
            rng = np.random.default_rng(0)
            self.vectors = rng.normal(size=(5000, self.n_layers, self.dim)).astype(np.float32)
        n = [len(words) for words in shard.sentences]
        made = self.vectors[np.arange(sum(n)) % 5000].transpose(1, 0, 2)  # (L, n, D)
        return [part.copy() for part in np.split(made, np.cumsum(n)[:-1], axis=1)]


class AtOnce:
    """A pool that has every result already."""

    room, ahead = 1, 1

    def __init__(self, ready: Ready):
        self._ready, self._shards = ready, list[Shard]()
        self.seconds = 0.0

    def start(self, shard: Shard) -> None:
        self._shards.append(shard)

    def finished(self) -> list[tuple[Shard, Layers | None]]:
        start, shard = time.process_time(), self._shards.pop()
        layers = self._ready(shard)
        self.seconds += time.process_time() - start
        return [(shard, layers)]


def writer(embedder: Embedder, text: Sentences, scratch: Path) -> dict[str, Any]:
    """Words per second that each writer takes in, and that Ray delivers to one process."""
    n_words, ready = sum(map(len, text)), Ready(embedder.n_layers, embedder.dim)
    verbs: dict[str, Verb] = {"hdf5": hdf5, "npz": embed, "index": index}
    for precision in PRECISIONS:
        verbs[f"store {precision}"] = partial(store, precision=precision)
    found = {}
    for name, verb in verbs.items():
        pool = AtOnce(ready)
        with emptied(scratch / "written") as folder:
            start = time.process_time()
            verb(PooledEmbedder(embedder, pool), text, folder)
            seconds = time.process_time() - start - pool.seconds
        found[name] = told(**{name: round(n_words / seconds)})[name]
    word = embedder.n_layers * embedder.dim * 4
    load = Load(work_bytes=0, result_bytes=embedder.window_words(BATCH_WORDS) * word)
    with RayPool[Shard, Layers](ready, Place(workers=1), load) as rays:
        source = PooledEmbedder(embedder, rays)
        list(source.stream(text[:2000]))
        start = time.process_time()
        for _ in source.stream(text):
            pass
        seconds = time.process_time() - start
    return {"words": n_words, **found, **told(receiving=round(n_words / seconds))}


if __name__ == "__main__":
    main()
