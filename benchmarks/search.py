"""An index of a whole corpus: time to build it, bytes, and queries, exact and approximate. Writes
results/search.json and search.md. A build that was stopped goes on; its time is that of all runs.

    python benchmarks/search.py --corpus wiki.train.txt --queries wiki.valid.txt --model small-en \
        --index wiki.index --words 20000 --uses 200
"""

# Q queries, n uses, L layers, D vector dim
import argparse
import json
import os
import platform
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmore.embedder import Embedder
from elmore.embedding import Vectors
from elmore.files.sentence_files import SentenceFiles
from elmore.search.index import Index
from elmore.search.manifest import ModelSource
from elmore.uses.geometry import unit

HERE = Path(__file__).resolve().parent
K = 10
_CHUNK = 32_768


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="a sentence a line")
    parser.add_argument("--queries", type=Path, required=True, help="text that is not the corpus")
    parser.add_argument("--tokenize", action="store_true", help="both are raw text")
    parser.add_argument("--model", required=True)
    parser.add_argument("--index", type=Path, required=True, help="folder to make or to go on with")
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--uses", type=int, default=200)
    parser.add_argument("--keep", default="mix")
    parser.add_argument("--n-queries", type=int, default=500)
    parser.add_argument("--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    embedder = Embedder.load(options.model, device="cpu")
    built = build(options, embedder)
    index = Index.open(options.index, embedder)
    found = {"machine": machine(), "built": built, "index": about(index)}
    found["queries"] = query(index, embedder, questions(options, index))
    options.output.mkdir(exist_ok=True)
    (options.output / "search.json").write_text(json.dumps(found, indent=1) + "\n")
    page = "\n".join(lines(found)) + "\n"
    (options.output / "search.md").write_text(page)
    print(page)


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
    }


def build(options: argparse.Namespace, embedder: Embedder) -> dict[str, Any]:
    """Seconds of each stage; a file beside the index adds up the runs of a build."""
    told = options.index.with_suffix(".seconds.json")
    seconds: dict[str, Any] = json.loads(told.read_text()) if told.exists() else {}
    if seconds.get("finished"):
        return seconds
    stage, since = "counting", time.perf_counter()

    def watch(now: Any) -> None:
        nonlocal stage, since
        moment = time.perf_counter()
        seconds[stage] = seconds.get(stage, 0.0) + moment - since
        stage, since = now.stage, moment
        seconds["embedded_words"] = before + now.words
        told.write_text(json.dumps(seconds))

    before = seconds.get("embedded_words", 0)
    Index.build(
        SentenceFiles(options.corpus, options.tokenize),
        embedder,
        options.index,
        keep=options.keep,
        words=options.words,
        max_uses=options.uses,
        source=ModelSource(name=options.model),
        progress=watch,
    )
    told.write_text(json.dumps(seconds | {"finished": True}))
    return seconds


def about(index: Index) -> dict[str, Any]:
    folders = {path.name: size_of(path) for path in sorted(index.path.iterdir()) if path.is_dir()}
    return {
        "uses": index.n_uses,
        "words": len(index.words),
        "sentences": index.n_sentences,
        "dim": index.manifest.dim,
        "kept": index.manifest.n_kept,
        "precision": index.manifest.precision,
        "bytes": size_of(index.path),
        "parts": folders,
    }


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def questions(options: argparse.Namespace, index: Index) -> list[tuple[list[str], int]]:
    """Sentences of other text, each with an indexed word, drawn without regard to frequency."""
    known, chance = set(index.words), random.Random(0)
    asked = []
    for words in SentenceFiles([options.queries], options.tokenize):
        positions = [i for i, word in enumerate(words) if word in known and word.isalpha()]
        if positions and 5 <= len(words) <= 60:
            asked.append((words, chance.choice(positions)))
    chance.shuffle(asked)
    return list(islice(asked, options.n_queries))


def query(index: Index, embedder: Embedder, asked: list[tuple[list[str], int]]) -> dict[str, Any]:
    vectors = [embedder.embed([words])[0].layers[:, at].copy() for words, at in asked]
    pairs = list(zip(asked, vectors, strict=True))
    word = {
        "whole": times([partial(index.neighbors, w, p, K) for w, p in asked]),
        "search": times([partial(index.neighbors_of, v, w[p], K) for (w, p), v in pairs]),
    }
    any_word = {
        "whole": times([partial(index.neighbors, w, p, K, same_word=False) for w, p in asked]),
        "search": times([partial(index.neighbors_of, v, k=K) for v in vectors]),
    }
    return {"n": len(asked), "word": word, "any": any_word, "recall": recall(index, vectors)}


def times(calls: list[Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of one call after another, each call a new query; the files are in memory."""
    for call in calls[: len(calls) // 5]:
        call()
    taken = []
    for call in calls:
        begin = time.perf_counter()
        call()
        taken.append(1000 * (time.perf_counter() - begin))
    return {"p50": float(np.percentile(taken, 50)), "p99": float(np.percentile(taken, 99))}


def recall(index: Index, vectors: list[Vectors]) -> float:
    """The share of the exact ten nearest stored uses that a query finds."""
    (segment,), space = index._snapshot.segments, index._snapshot.space
    weights = space.weights("mix")
    queries = np.stack([space.query(v, "mix", None).seen(weights) for v in vectors])  # (Q, D)
    best = np.full((len(queries), K), -np.inf, np.float32)
    for begin in range(0, segment.state.uses, _CHUNK):
        rows = unit(segment.vectors(slice(begin, begin + _CHUNK), weights))  # (n, D)
        best = -np.sort(-np.concatenate([best, queries @ rows.T], axis=1), axis=1)[:, :K]
    hits = 0
    for query_vectors, worst in zip(vectors, best[:, -1], strict=True):
        near = index.neighbors_of(query_vectors, k=K, distinct=False)
        hits += sum(one.score >= worst - 1e-5 for one in near)
    return hits / (K * len(vectors))


def lines(found: dict[str, Any]) -> list[str]:
    index, built, asked, here = (found[name] for name in ("index", "built", "queries", "machine"))
    stages = [
        name for name in ("counting", "embedding", "grouping", "approximating") if name in built
    ]
    total = sum(built[name] for name in stages)
    parts = ", ".join(f"{name} {built[name]:,.0f} s" for name in stages)
    size = f"{index['kept']} × {index['dim']} {index['precision']}"
    where = f"{here['cores']} cores, {here['threads']} threads, torch {here['torch']}"
    rows = [
        f"{where}; load {here['load']:.1f}.",
        "",
        f"{index['uses']:,} uses of {index['words']:,} words, {size}.",
        "",
        f"- built in {total:,.0f} s: {parts} ({built['embedded_words']:,} words embedded)",
        f"- {index['bytes'] / 1e6:,.0f} MB, {index['bytes'] / index['uses']:,.0f} bytes a use",
        f"- recall@{K} across all words: {asked['recall']:.4f} ({asked['n']} queries)",
        "",
        "| ms | search p50 | p99 | with embedding p50 | p99 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, title in (("word", "within a word"), ("any", "across all words")):
        search, whole = asked[name]["search"], asked[name]["whole"]
        rows.append(
            f"| {title} | {search['p50']:.1f} | {search['p99']:.1f} "
            f"| {whole['p50']:.1f} | {whole['p99']:.1f} |"
        )
    return rows


if __name__ == "__main__":
    main()
