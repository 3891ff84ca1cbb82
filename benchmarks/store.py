"""The store beside AllenNLP's HDF5 cache: bytes on a real task, how exact each choice is,
reading speed in the same run, and ten million sentences. Writes results/store.json and store.md.

    python benchmarks/store.py --squad FOLDER            # the SQuAD files, .json or .json.xz
    python benchmarks/store.py --squad FOLDER --many 10000000 --write-docs
"""

# L layers, n words, D vector dim
import argparse
import json
import lzma
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import h5py
import numpy as np
import torch

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.embedder import Embedder
from elmore.embedding import Embedding
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.scalar_mix import ScalarMix
from elmore.store.keep import Projection, keep_of, select
from elmore.store.precision import PRECISIONS, Codec, Stored, as_tensor
from elmore.store.sizes import Counts, count, plan
from elmore.store.store import Store
from elmore.text.tokenize import words as words_of

HERE = Path(__file__).resolve().parent
L, D = 3, 1024  # the published original
PROJECTED = 256
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--squad", type=Path, help="folder with SQuAD files")
    parser.add_argument("--sample-words", type=int, default=6000, help="for reconstruction errors")
    parser.add_argument("--sentences", type=int, default=2000, help="of 1 to 39 words, to be read")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--many", type=int, default=0, help="tiny sentences in one store")
    parser.add_argument("--write-docs", action="store_true", help="put the page into the docs")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.open:
        print(json.dumps(opened(options.open)))
        return
    found: dict[str, Any] = {"machine": machine()}
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.output) as scratch:
        if options.squad:
            found["sizes"] = sizes(options.squad, Path(scratch))
            found["errors"] = errors(options.squad, options.sample_words)
        found["reading"] = reading(Path(scratch), options.sentences, options.rounds)
        if options.many:
            found["many"] = many(Path(scratch) / "many", options.many)
    previous = options.output / "store.json"
    if previous.exists():  # parts that this run left out stay as they were
        found = json.loads(previous.read_text()) | found
    previous.write_text(json.dumps(found, indent=1) + "\n")
    page = "\n".join(tables(found)) + "\n"
    (options.output / "store.md").write_text(page)
    if options.write_docs:
        write_docs(page)
    print(page)


def write_docs(page: str) -> None:
    """Between the two marks that docs/store.md has for it."""
    path = HERE.parent / "docs" / "store.md"
    before, rest = path.read_text().split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{page}{END}{after}")


def machine() -> dict[str, str]:
    names = [n for n in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in n]
    return {
        "cpu": names[0].split(": ")[1] if names else platform.processor(),
        "threads": "1",
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"numpy {np.__version__}, h5py {h5py.__version__}",
    }


# Bytes -----------------------------------------------------------------------------------------


def epoch(folder: Path) -> Iterator[list[str]]:
    """What a training epoch asks for: each question, and its paragraph again with each of them."""
    for path in sorted(folder.glob("squad*train*.json*")):
        data = path.read_bytes()
        data = lzma.decompress(data) if path.suffix == ".xz" else data
        articles = json.loads(data)["data"]
        for paragraph in (p for article in articles for p in article["paragraphs"]):
            context = words_of(paragraph["context"])
            for question in paragraph["qas"]:
                yield context
                yield words_of(question["question"])


def sizes(folder: Path, scratch: Path) -> dict[str, Any]:
    asked = list(epoch(folder))
    counts = count(asked)
    whole = allennlp_bytes(scratch / "sizes.hdf5", [len(words) for words in asked])
    rows = [
        {"keep": size.keep, "precision": size.precision, "bytes": size.bytes}
        for size in plan(counts, L, D, PROJECTED)
    ]
    return {"counts": counted(counts), "allennlp": whole, "choices": rows}


def counted(counts: Counts) -> dict[str, int]:
    names = ("sentences", "words", "distinct_sentences", "distinct_words")
    return {name: getattr(counts, name) for name in names}


def allennlp_bytes(path: Path, lengths: list[int]) -> int:
    """The file that `allennlp elmo` would leave, exactly: every dataset is given its room in the
    file, but the numbers are never written, so it takes no disk."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w") as file:
        for i, n_words in enumerate(lengths):
            space = h5py.h5s.create_simple((L, n_words, D))
            h5py.h5d.create(file.id, str(i).encode(), h5py.h5t.IEEE_F32LE, space, plist)
    size = path.stat().st_size
    path.unlink()
    return size


# Exactness -------------------------------------------------------------------------------------


def original(seed: int = 0) -> Embedder:
    """The published size with random weights of a spread that keeps every layer alive."""
    torch.manual_seed(seed)
    model = BiLM(BiLMConfig())
    for parameter in model.parameters():
        width = parameter.shape[-1] if parameter.dim() > 1 else 100
        torch.nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)
    return Embedder(bilm_checkpoint(model), device="cpu")


def errors(folder: Path, n_words: int) -> list[dict[str, Any]]:
    asked = list({" ".join(words): words for words in epoch(folder)}.values())
    random.Random(0).shuffle(asked)
    layers = embedded(original(), asked, 2 * n_words)
    learnt_from, exact = layers[:, :-n_words], layers[:, -n_words:]  # (L, n, D) each
    projection = Projection.learn([Embedding([], learnt_from)], PROJECTED)
    mix = ScalarMix(L, initial=[0.5, 0.0, -0.5])
    choices: dict[str, Any] = {"all": "all", "average": "average", "mix": mix}
    choices[f"projection to {PROJECTED}"] = projection
    rows = []
    for name, choice in choices.items():
        kept = select(keep_of(choice, L), exact, projection)  # (K, n, D)
        for precision in PRECISIONS:
            codec = Codec(precision, kept.shape[0], kept.shape[2])
            block = as_tensor(codec.encode(kept))
            back = codec.decode(block, kept.shape[1]).numpy()
            pair = (projection.restore(back, L), exact) if choice is projection else (back, kept)
            cosines = [[*cosine(a, b)] for a, b in zip(*pair, strict=True)]
            rows.append({"keep": name, "precision": precision, "cosines": cosines})
    return rows


def embedded(embedder: Embedder, sentences: Iterable[list[str]], n_words: int) -> Any:
    parts: list[Any] = []
    for embedding in embedder.stream(sentences):
        parts.append(embedding.layers)
        if sum(part.shape[1] for part in parts) >= n_words:
            break
    return np.concatenate(parts, axis=1)  # (L, n, D)


def cosine(a: Any, b: Any) -> tuple[float, float]:
    """The mean over the words, and the worst word."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosines = (a * b).sum(-1) / norms
    return float(cosines.mean()), float(cosines.min())


# Reading ---------------------------------------------------------------------------------------


class Source:
    """What a store asks of a model, without one."""

    fingerprint, n_layers, dim = "0" * 64, L, D


def made(n: int, n_layers: int = L, dim: int = D) -> Iterator[Embedding]:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n_layers, 39, dim)).astype(np.float32)
    for i in range(n):
        n_words = 1 + i * 17 % 39
        yield Embedding([f"w{i}", *(f"word{j}" for j in range(1, n_words))], numbers[:, :n_words])


def reading(scratch: Path, n: int, rounds: int) -> dict[str, Any]:
    """Everything in one run, turns taken, the median of the rounds."""
    embeddings = list(made(n))
    stores = {}
    for precision in PRECISIONS:
        store = Store.create(scratch / precision, Source(), precision=precision)  # type: ignore[arg-type]
        store.add(embeddings)
        stores[precision] = store
    files = {}
    for kind in ("float32", "float16"):
        with h5py.File(scratch / f"{kind}.hdf5", "w") as file:
            for i, embedding in enumerate(embeddings):
                file.create_dataset(str(i), data=embedding.layers.astype(kind))
        files[kind] = h5py.File(scratch / f"{kind}.hdf5", "r")
    asked = [embedding.words for embedding in embeddings]
    ways: dict[str, Callable[[int], Any]] = {
        "elmore float16, not copied": lambda i: stores["float16"].stored(asked[i]),
        "elmore float16, copied": lambda i: found(stores["float16"], asked[i]).values.copy(),
        **{f"elmore {p} → float32": partial(one_of_store, stores[p], asked) for p in PRECISIONS},
        **{f"h5py {kind}": partial(one_of_hdf5, files[kind]) for kind in files},
    }
    in_order: dict[str, Callable[[int], Any]] = {
        **{f"elmore {p} → float32": partial(all_of_store, stores[p]) for p in PRECISIONS},
        "elmore float16, copied": lambda _: drain(copies(stores["float16"], asked)),
        **{f"h5py {kind}": partial(all_of_hdf5, files[kind], n) for kind in files},
    }
    n_words = sum(map(len, asked))
    order = list(range(n))
    random.Random(0).shuffle(order)
    random_us: dict[str, list[float]] = {name: [] for name in ways}
    words_per_second: dict[str, list[float]] = {name: [] for name in in_order}
    for _ in range(rounds + 1):  # the first warms the cache and is not counted
        for name, way in ways.items():
            random_us[name].append(timed(way, order) / n * 1e6)
        for name, way in in_order.items():
            words_per_second[name].append(n_words / timed(way, [0]))
    return {
        "sentences": n,
        "words": n_words,
        "random_us": {name: summary(times[1:]) for name, times in random_us.items()},
        "words_per_second": {name: summary(v[1:]) for name, v in words_per_second.items()},
    }


def copies(store: Store, asked: list[list[str]]) -> Iterator[Any]:
    for words in asked:
        stored = store.stored(words)
        assert stored is not None
        yield stored.values.copy()


def drain(things: Iterable[Any]) -> None:
    for _ in things:
        pass


def found(store: Store, words: list[str]) -> Stored:
    stored = store.stored(words)
    assert stored is not None
    return stored


def one_of_store(store: Store, asked: list[list[str]], i: int) -> Embedding:
    return store[asked[i]]


def one_of_hdf5(file: h5py.File, i: int) -> Any:
    return file[str(i)][()]


def all_of_store(store: Store, _: int) -> None:
    drain(store)


def all_of_hdf5(file: h5py.File, n: int, _: int) -> None:
    drain(file[str(i)][()] for i in range(n))


def timed(way: Callable[[int], Any], order: list[int]) -> float:
    """Processor time: from a warm cache nothing is waited for, and neighbours do not count."""
    begin = time.process_time()
    for i in order:
        way(i)
    return time.process_time() - begin


def summary(times: list[float]) -> dict[str, float]:
    return {"median": median(times), "least": min(times), "most": max(times)}


# Ten million -----------------------------------------------------------------------------------


class Tiny:
    fingerprint, n_layers, dim = "1" * 64, 1, 4


def many(folder: Path, n: int) -> dict[str, Any]:
    store = Store.create(folder, Tiny())  # type: ignore[arg-type]
    vector = np.ones((1, 1, 4), np.float32)
    begin = time.perf_counter()
    numbers = iter(range(n))
    while chunk := list(islice(numbers, 1_000_000)):
        store.add(Embedding([f"w{i}"], vector) for i in chunk)
        print(f"{len(store):,} sentences, {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    filling = time.perf_counter() - begin
    small = Store.create(folder.with_name("few"), Tiny())  # type: ignore[arg-type]
    small.add(Embedding([f"w{i}"], vector) for i in range(1000))
    return {
        "sentences": n,
        "fill_seconds": filling,
        "bytes": sum(path.stat().st_size for path in folder.iterdir()),
        "large": in_a_process(folder),
        "small": in_a_process(small.path),
    }


def in_a_process(folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--open", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def opened(folder: Path) -> dict[str, float]:
    """Open, look up a thousand sentences that are there and as many that are not."""
    before = memory("RssAnon")
    begin = time.perf_counter()
    store = Store.open(folder)
    opening = time.perf_counter() - begin
    at_open = memory("RssAnon")
    rng = random.Random(0)
    asked = [[f"w{rng.randrange(len(store))}"] for _ in range(1000)]
    begin = time.perf_counter()
    assert all(words in store for words in asked)
    hits = time.perf_counter() - begin
    assert not any(["x", *words] in store for words in asked)
    return {
        "open_ms": opening * 1e3,
        "open_mb": at_open - before,
        "lookup_us": hits / len(asked) * 1e6,
        "looked_up_mb": memory("RssAnon") - before,
    }


def memory(kind: str) -> float:
    """Of this process, in MB. Anonymous memory is its own; mapped files are the system's cache."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


# The page --------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['machine']['cpu']}, one thread; {found['machine']['versions']}."
    if "sizes" in found:
        yield from size_table(found["sizes"])
    if "errors" in found:
        yield from error_table(found["errors"])
    yield from reading_tables(found["reading"])
    if "many" in found:
        yield from many_table(found["many"])


def size_table(found: dict[str, Any]) -> Iterator[str]:
    counts, whole = found["counts"], found["allennlp"]
    yield (
        f"\nOne epoch of SQuAD reads {counts['sentences']:,} texts ({counts['words']:,} words). "
        f"Of these, {counts['distinct_sentences']:,} texts ({counts['distinct_words']:,} words) "
        "are distinct.\n"
    )
    yield "| kept | precision | size | times smaller |\n|---|---|---:|---:|"
    yield f"| AllenNLP's HDF5, 3 layers, repeated texts stored again | float32 | {gb(whole)} | |"
    for row in found["choices"]:
        times = whole / row["bytes"]
        yield f"| {row['keep']} | {row['precision']} | {gb(row['bytes'])} | {times:.1f}× |"


def error_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "\nCosine to the exact vectors, mean (worst word):\n"
    yield "| kept | precision | layer 0, or the mix | layer 1 | layer 2 |\n|---|---|---|---|---|"
    for row in rows:
        cells = [f"{mean:.6f} ({worst:.6f})" for mean, worst in row["cosines"]]
        cells += [""] * (L - len(cells))
        yield f"| {row['keep']} | {row['precision']} | {' | '.join(cells)} |"


def reading_tables(found: dict[str, Any]) -> Iterator[str]:
    yield f"\n{found['sentences']:,} sentences, {found['words']:,} words, 3 × 1024, warm cache:\n"
    peer = found["random_us"]["h5py float32"]["median"]
    yield "| one random sentence | µs | min–max | speedup over h5py float32 |\n|---|---:|---|---:|"
    for name, t in found["random_us"].items():
        spread = f"{t['least']:.1f}–{t['most']:.1f}"
        yield f"| {name} | {t['median']:.1f} | {spread} | {peer / t['median']:.1f}× |"
    peer = found["words_per_second"]["h5py float32"]["median"]
    yield "\n| all in order | words/s | min–max | speedup over h5py float32 |\n|---|---:|---|---:|"
    for name, t in found["words_per_second"].items():
        spread = f"{t['least']:,.0f}–{t['most']:,.0f}"
        yield f"| {name} | {t['median']:,.0f} | {spread} | {t['median'] / peer:.1f}× |"


def many_table(found: dict[str, Any]) -> Iterator[str]:
    rate = found["sentences"] / found["fill_seconds"]
    size = f"{gb(found['bytes'])}, written at {rate:,.0f}/s"
    yield f"\n{found['sentences']:,} sentences of one word ({size}):\n"
    yield "| | time to open | memory used | one cold lookup | memory after 2,000 |"
    yield "|---|---:|---:|---:|---:|"
    for name, n in (("large", f"{found['sentences']:,}"), ("small", "1,000")):
        t = found[name]
        yield (
            f"| {n} sentences | {t['open_ms']:.1f} ms | {t['open_mb']:.1f} MB | "
            f"{t['lookup_us']:.1f} µs | {t['looked_up_mb']:.1f} MB |"
        )


def gb(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
