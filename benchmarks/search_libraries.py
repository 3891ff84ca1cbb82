"""faiss as elmore uses it beside LanceDB: a million made-up uses, each library in a process of its
own, one thread, one after the other. Writes results/search_libraries.json and prints the table.

    python -m venv lance && lance/bin/pip install lancedb
    OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/search_libraries.py --lance lance/bin/python

The vectors are synthetic: 50 uses round each of 20,000 random middles, 384 wide, float16. A use is
its middle and half as much noise; both are normal, the i-th direction shrinks as 1/sqrt(i), and
all is turned at random and brought to length one. Queries are made likewise and are not among the
uses. Recall is against comparing all. Times are of the processor, all threads together; those of
the clock stand in the JSON beside them.
"""

# n uses, Q queries, D vector dim
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
D, K, N_QUERIES = 384, 10, 200
USES_OF_A_WORD = 50
CANDIDATES = 200  # that the stored vectors then rank, as in `Index.neighbors_of`
PROBES = (32, 128)  # cells looked at; elmore's is 128
CHUNK = 50_000
TOO_LONG = 3  # a child's exit code
# LANCE_IO_THREADS=1 would make lancedb 0.40.0 wait for itself for ever
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "LANCE_CPU_THREADS", "RAYON_NUM_THREADS"), "1")
SIDES: dict[str, dict[str, Any]] = {
    "faiss": {},
    # cells and training as elmore has them of faiss: 40 uses a cell, ten rounds
    "lancedb IVF_SQ": {"index_type": "IVF_SQ", "sample_rate": 40, "max_iterations": 10},
    "lancedb IVF_PQ": {
        "index_type": "IVF_PQ",
        "num_sub_vectors": D // 8,
        "sample_rate": 40,
        "max_iterations": 10,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lance", type=Path, help="the Python of an environment with lancedb")
    parser.add_argument("--uses", type=int, nargs="+", default=[1_000_000, 100_000])
    parser.add_argument("--limit", type=int, default=180, help="processor seconds of a build")
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--output", type=Path, default=HERE / "results/search_libraries.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, folder, limit = options.child
        child(side, Path(folder), int(limit))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    found: dict[str, Any] = {"machine": machine(), "limit": options.limit, "runs": []}
    for n in options.uses:
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), n)
            for side in options.sides:
                python = options.lance if "lance" in side else sys.executable
                if python is None:
                    continue
                one = {"side": side, "uses": n, "load": os.getloadavg()[0]}
                found["runs"].append(one | run(python, side, name, options.limit))
                options.output.write_text(json.dumps(found, indent=1) + "\n")
                print("\n".join(lines(found["runs"][-1])), flush=True)


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "cores_used": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }


def run(python: str | Path, side: str, folder: str, limit: int) -> dict[str, Any]:
    """What a child finds, or that its build took too long."""
    command = [str(python), __file__, "--child", side, folder, str(limit)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD)
    if done.returncode == TOO_LONG:
        return {"not_finished": limit}
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines(one: dict[str, Any]) -> list[str]:
    name = f"| {one['uses']:,} | {one['side']} "
    if "not_finished" in one:
        return [f"{name}| not finished in {one['not_finished']} s | | | | | |"]
    size = f"{one['build']['cpu']:.0f} s | {one['bytes'] / 1e6:.0f} MB"
    return [
        f"{name}| {size} | {asked['probes']} | {asked['recall']:.3f} "
        f"| {asked['cpu']['p50']:.1f} ms | {asked['cpu']['p99']:.1f} ms |"
        for asked in one["queries"]
    ]


# The uses ---------------------------------------------------------------------------------------


def make(folder: Path, n: int) -> None:
    """Uses, queries, and the uses nearest to each query by comparing all."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(D, D)))[0] / np.sqrt(np.arange(1, D + 1))[:, None]
    turn = axes.astype(np.float32)
    middles = rng.normal(size=(n // USES_OF_A_WORD, D)).astype(np.float32)

    def near(which: NDArray[np.int64]) -> NDArray[np.float32]:
        noise = 0.5 * rng.standard_normal((len(which), D), np.float32)
        return unit((middles[which] + noise) @ turn)

    queries = near(rng.integers(0, len(middles), N_QUERIES))  # (Q, D)
    uses = np.lib.format.open_memmap(folder / "uses.npy", "w+", np.float16, (n, D))
    best, rows = np.full((N_QUERIES, K), -np.inf), np.zeros((N_QUERIES, K), np.int64)
    for begin in range(0, n, CHUNK):
        some = np.arange(begin, min(n, begin + CHUNK))
        uses[some] = near(some // USES_OF_A_WORD)
        scores = queries @ unit(uses[some].astype(np.float32)).T
        best = np.concatenate([best, scores], axis=1)
        rows = np.concatenate([rows, np.tile(some, (N_QUERIES, 1))], axis=1)
        order = np.argpartition(-best, K)[:, :K]
        best, rows = np.take_along_axis(best, order, 1), np.take_along_axis(rows, order, 1)
    uses.flush()
    np.save(folder / "queries.npy", queries)
    np.save(folder / "nearest.npy", rows)


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / length


# In the child: nothing of elmore is imported for LanceDB, nor the other way round ---------------


Search = Callable[[NDArray[np.float32], int], list[int]]
"""A query and the number of cells to look at -> the ten nearest rows."""


def child(side: str, folder: Path, limit: int) -> None:
    uses = np.load(folder / "uses.npy", mmap_mode="r")
    queries, nearest = np.load(folder / "queries.npy"), np.load(folder / "nearest.npy")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        prepared = of_faiss if side == "faiss" else of_lancedb
        build, open_index = prepared(Path(name), uses, SIDES[side])
        before = size_of(Path(name))
        with limited(limit):
            built = timed(build)
        search = open_index()
        found = {
            "version": version("faiss-cpu" if side == "faiss" else "lancedb"),
            "build": built,
            "bytes": size_of(Path(name)) - before,
            "vector_bytes": before,
            "queries": [asked(search, queries, nearest, probes) for probes in PROBES],
        }
    print(json.dumps(found))


def asked(
    search: Search, queries: NDArray[np.float32], nearest: NDArray[np.int64], probes: int
) -> dict[str, Any]:
    for query in queries[:40]:
        search(query, probes)
    hits, taken = 0, []
    for query, wanted in zip(queries, nearest, strict=True):
        rows: list[int] = []
        taken.append(timed(partial(collect, rows, search, query, probes)))
        hits += len(set(rows) & set(wanted.tolist()))
    spread = {
        kind: {f"p{p}": 1000 * float(np.percentile([t[kind] for t in taken], p)) for p in (50, 99)}
        for kind in ("cpu", "clock")
    }
    return {"probes": probes, "recall": hits / nearest.size, **spread}


def collect(rows: list[int], search: Search, query: NDArray[np.float32], probes: int) -> None:
    rows.extend(search(query, probes))


def timed(call: Callable[[], Any]) -> dict[str, float]:
    clock, cpu = time.perf_counter(), time.process_time()
    call()
    return {"cpu": time.process_time() - cpu, "clock": time.perf_counter() - clock}


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """End the process once it has computed for so long; what others make it wait is not its own."""
    finished, begin = threading.Event(), time.process_time()

    def watch() -> None:
        while not finished.wait(1):
            if time.process_time() - begin > seconds:
                os._exit(TOO_LONG)

    threading.Thread(target=watch, daemon=True).start()
    yield
    finished.set()


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def of_faiss(
    folder: Path, uses: NDArray[np.float16], _: dict[str, Any]
) -> tuple[Callable[[], None], Callable[[], Search]]:
    """elmore's own segment in int8, its approximate index, and its search through both."""
    from elmore.embedding import Layers
    from elmore.search import approximate as own
    from elmore.search.index_snapshot import nearest
    from elmore.search.origins import OriginTable
    from elmore.search.segment import Segment, Table, write_segment
    from elmore.search.vector_space import Query, equal_mix
    from elmore.store.precision import Codec

    codec, n = Codec("int8", 1, D), len(uses)
    word = np.arange(n) // USES_OF_A_WORD
    table = Table(
        words=[f"w{i:07}" for i in range(word[-1] + 1)],
        word=word,
        sentence=np.zeros(n, np.int64),
        position=np.zeros(n, np.int64),
        keys=np.zeros(1, np.uint64),
        static=np.zeros((word[-1] + 1, D), np.float16),
        origins=OriginTable(np.full((1, 5), -1, np.int32), [], []),
    )
    parts = (uses[None, i : i + CHUNK].astype(np.float32) for i in range(0, n, CHUNK))
    blocks = (codec.stored(codec.encode(part), 0, part.shape[1]) for part in parts)
    state = write_segment(folder / "segment-00000", table, [b"w"], blocks)
    segment = Segment(folder, state, codec, D)
    keep = Layers(numbers=(0,))
    weights = equal_mix(keep)

    def build() -> None:
        (folder / "approximate").mkdir()
        built = own._built(segment, weights)
        own.faiss().write_index(built, str(folder / "approximate/mix.faiss"))

    def open_index() -> Search:
        index = own.Approximate(folder / "approximate", keep, {})

        def search(query: NDArray[np.float32], probes: int) -> list[int]:
            own._PROBES = probes
            hits = nearest([segment], index, Query(query[None], weights), CANDIDATES)
            return [hit.row for hit in hits[:K]]

        return search

    return build, open_index


def of_lancedb(
    folder: Path, uses: NDArray[np.float16], settings: dict[str, Any]
) -> tuple[Callable[[], None], Callable[[], Search]]:
    """A table of float32 vectors, one cell count with faiss, the candidates ranked by the table."""
    import lancedb
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), D))])

    def batches() -> Any:
        for begin in range(0, len(uses), CHUNK):
            rows = uses[begin : begin + CHUNK].astype(np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), D)
            numbers = pa.array(np.arange(begin, begin + len(rows)))
            yield pa.RecordBatch.from_arrays([numbers, vectors], schema=schema)

    table = lancedb.connect(str(folder)).create_table("uses", batches(), schema=schema)
    n_cells = 1 << round(np.log2(2 * np.sqrt(len(uses))))  # as in elmore.search.approximate

    def build() -> None:
        table.create_index(metric="cosine", num_partitions=n_cells, **settings)

    def open_index() -> Search:
        fresh = lancedb.connect(str(folder)).open_table("uses")

        def search(query: NDArray[np.float32], probes: int) -> list[int]:
            wanted = fresh.search(query).metric("cosine").nprobes(probes).limit(K)
            found = wanted.refine_factor(CANDIDATES // K).select(["id", "_distance"]).to_arrow()
            rows: list[int] = found["id"].to_pylist()
            return rows

        return search

    return build, open_index


if __name__ == "__main__":
    main()
