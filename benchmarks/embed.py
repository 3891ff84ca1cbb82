"""Embedding speed: elmore's engines, AllenNLP's own modules and simple_elmo on the same sentences
and the same random weights of the original size, turns taken one after the other in one run. Writes
results/embed.json and results/embed.md; --write-docs copies the tables into docs/performance.md.

    benchmarks/peers.sh                                   # once: the peers' environments
    python benchmarks/embed.py --text FILE                # one sentence a line
    python benchmarks/embed.py --text FILE --growth       # curves too: half an hour more
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from embed_child import Job

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.sources import save
from elmore.files.text_file import read_lines
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.text.tokenize import words

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "performance.md"
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
# Name of a row: (side, options of its turns).
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "AllenNLP 2.10.1, input order": ("allennlp", {}),
    "AllenNLP 2.10.1, sorted by length": ("allennlp", {"sorted": True}),
    "simple_elmo 0.9.2, input order": ("simple_elmo", {}),
    "simple_elmo 0.9.2, sorted by length": ("simple_elmo", {"sorted": True}),
    "elmore, PyTorch alone": ("torch", {}),
    "elmore, kernel float32": ("kernel", {}),
    "elmore, kernel int8": ("int8", {}),
}
PEER = "AllenNLP 2.10.1, sorted by length"
SIDES = ("allennlp", "simple_elmo", "torch", "kernel", "int8")
# Peer: (its environment beside the bench environment, its script).
PEERS = {"allennlp": ("", "embed_allennlp.py"), "simple_elmo": ("-tf", "embed_simple_elmo.py")}
MFLOP_A_WORD, MFLOP_A_TYPE = 117.4, 69.2  # of the original size; see docs/performance.md


class Child:
    """A side's process, waiting for turns."""

    def __init__(self, job: Job, python: str, script: str):
        command = [python, str(HERE / script), json.dumps(asdict(job))]
        environment = os.environ | {"OMP_NUM_THREADS": str(job.threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.began = self._heard()

    def turn(self, **what: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._heard()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended with {self._process.wait()}.")
        heard: dict[str, Any] = json.loads(line)
        return heard


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        write_models(Path(folder))
        sentences = read_sentences(options.text, options.sentences)
        (Path(folder) / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
        sides = [side for side in SIDES if side not in PEERS or python_of(side, options).is_file()]
        children = {side: start(side, Path(folder), options) for side in sides}
        try:
            result = measure(children, sentences, Path(folder), options)
        finally:
            for child in children.values():
                child.close()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "embed.json").write_text(json.dumps(result, indent=2) + "\n")
    page = tables(result)
    (options.output / "embed.md").write_text("# Embedding speed\n\n" + page, encoding="utf-8")
    if options.write_docs:
        write_docs(page)
    print(page)


def parse() -> argparse.Namespace:
    environment = os.environ.get("ELMORE_BENCH_ENV", "~/.cache/elmore/bench-env")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--latencies", type=int, default=15, help="single sentences timed")
    parser.add_argument("--growth", action="store_true", help="curves over size, length, batch")
    parser.add_argument("--words", type=int, default=10**6, help="where the first curve ends")
    parser.add_argument("--peers", type=Path, default=Path(environment).expanduser())
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--scratch", type=Path, default=None, help="1 GB for the models")
    parser.add_argument("--write-docs", action="store_true")
    return parser.parse_args()


def write_models(folder: Path) -> None:
    """Random weights of the original size in both sides' formats."""
    torch.manual_seed(0)
    model = BiLM(BiLMConfig()).requires_grad_(False)
    save(bilm_checkpoint(model), folder / "native")
    (folder / "hdf5").mkdir()
    save(bilm_checkpoint(model), folder / "hdf5" / "weights.hdf5")
    written = next((folder / "hdf5").glob("*.json"))
    written.rename(folder / "hdf5" / "options.json")


def read_sentences(text: Path, n: int) -> list[list[str]]:
    lines = (words(line) for line in read_lines(str(text)))
    found = list(islice((line for line in lines if len(line) > 1), n))
    if len(found) < n:
        raise SystemExit(f"{text} has {len(found):,} sentences; {n:,} are asked for.")
    return found


def start(side: str, folder: Path, options: argparse.Namespace) -> Child:
    sentences = str(folder / "sentences.json")
    if side in PEERS:
        job = Job(side, str(folder / "hdf5"), sentences, options.threads)
        return Child(job, str(python_of(side, options)), PEERS[side][1])
    job = Job(side, str(folder / "native"), sentences, options.threads)
    return Child(job, sys.executable, "embed_child.py")


def python_of(peer: str, options: argparse.Namespace) -> Path:
    folder: Path = options.peers
    return folder.with_name(folder.name + PEERS[peer][0]) / "bin/python"


def measure(
    children: dict[str, Child],
    sentences: list[list[str]],
    folder: Path,
    options: argparse.Namespace,
) -> dict[str, Any]:
    n_words, n_types = sum(map(len, sentences)), len({w for s in sentences for w in s})
    rows = {name: row for name, row in ROWS.items() if row[0] in children}
    result: dict[str, Any] = {
        "machine": f"{platform.processor() or platform.machine()}, {options.threads} threads",
        "torch": torch.__version__,
        "sentences": len(sentences),
        "words": n_words,
        "types": n_types,
        "engine": children["kernel"].began["engine"],
        "gflops": max(children[s].began["gflops"] for s in children if s not in PEERS),
        "load_seconds": {side: child.began["load_seconds"] for side, child in children.items()},
        "agreement": agreement(children, folder),
        "latency": latencies(children, sentences, options.latencies),
        **throughput(children, rows, len(sentences), options.rounds),
    }
    result["peak"] = {side: child.turn(**_slice(0, 1))["peak"] for side, child in children.items()}
    if options.growth:
        result["growth"] = growth(children, sentences, options)
    return result


def _slice(first: int, last: int, **options: Any) -> dict[str, Any]:
    return {"from": first, "to": last, "options": options}


def throughput(
    children: dict[str, Child], rows: dict[str, tuple[str, dict[str, Any]]], n: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Every row once a round, so that what disturbs the machine disturbs all alike."""
    speeds: dict[str, list[float]] = {name: [] for name in rows}
    of_cpu: dict[str, list[float]] = {name: [] for name in rows}  # of all threads together
    for side in children:
        children[side].turn(**_slice(0, min(n, 64)))  # warm up
    for number in range(rounds):
        for name, (side, options) in rows.items():
            took = children[side].turn(**_slice(0, n, **options))
            speeds[name].append(took["words"] / took["seconds"])
            of_cpu[name].append(took["words"] / took["cpu_seconds"])
            seen = f"{speeds[name][-1]:,.0f} words/s, {of_cpu[name][-1]:,.0f} a CPU second"
            print(f"round {number + 1}: {name} {seen}", file=sys.stderr)
    return {"words_per_second": speeds, "words_per_cpu_second": of_cpu}


def agreement(children: dict[str, Child], folder: Path) -> dict[str, dict[str, float]]:
    """Largest difference, relative error and smallest cosine to AllenNLP without its state."""
    if "allennlp" not in children:
        return {}
    found: dict[str, np.ndarray[Any, Any]] = {}
    for side, child in children.items():
        target = folder / f"{side}.npz"
        child.turn(**_slice(0, 48, keep=True, stateless=True), save=str(target))
        with np.load(target) as arrays:
            found[side] = np.concatenate([arrays[name] for name in arrays.files], axis=1)
    truth = found.pop("allennlp")
    return {side: _difference(ours, truth) for side, ours in found.items()}


def _difference(ours: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> dict[str, float]:
    norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(truth, axis=-1)
    cosine = (ours * truth).sum(-1) / norms
    relative = np.linalg.norm(ours[-1] - truth[-1]) / np.linalg.norm(truth[-1])
    return {
        "largest": float(np.abs(ours - truth).max()),
        "relative": float(relative),
        "cosine": float(cosine.min()),
    }


def latencies(
    children: dict[str, Child], sentences: list[list[str]], n: int
) -> dict[str, list[float]]:
    """Seconds for one sentence of 20 words, each of them new to its side."""
    flat = [word for sentence in sentences for word in sentence]
    seconds: dict[str, list[float]] = {side: [] for side in children}
    for i in range(n):
        for side, child in children.items():
            took = child.turn(sentences=[flat[20 * i : 20 * i + 20]])
            seconds[side].append(took["seconds"])
    return seconds


def growth(
    children: dict[str, Child], sentences: list[list[str]], options: argparse.Namespace
) -> dict[str, list[dict[str, float]]]:
    """The kernel in float32: flat in the length of a text, and what else changes its speed."""
    child, flat = children["kernel"], [word for sentence in sentences for word in sentence]
    curves: dict[str, list[dict[str, float]]] = {}

    def point(curve: str, x: int, some: list[list[str]], **turn: Any) -> None:
        took = child.turn(sentences=some, options=turn)
        speed = took["words"] / took["seconds"]
        curves.setdefault(curve, []).append({"at": x, "speed": speed, "peak": took["peak"]})
        print(f"{curve} {x:,}: {speed:,.0f} words/s", file=sys.stderr)

    mean = len(flat) / len(sentences)
    for batch in (512, 1024, 2048, 4096, 8192):
        point("batch_words", batch, sentences[:1000], batch_words=batch)
    for threads in range(1, options.threads + 1):
        point("threads", threads, sentences[:500], threads=threads)
    for length in (1, 3, 10, 30, 100, 300, 1000):
        some = flat[:12_000]
        point("length", length, [some[i : i + length] for i in range(0, len(some), length)])
    size = 1000
    while size <= options.words:
        n = max(1, round(size / mean))
        point("words", size, (sentences * (n // len(sentences) + 1))[:n])
        size *= 10
    return curves


def tables(result: dict[str, Any]) -> str:
    speeds = {name: median(all_) for name, all_ in result["words_per_second"].items()}
    peer = speeds.get(PEER)
    sides = {name: side for name, (side, _) in ROWS.items()}
    lines = [
        f"{result['machine']}, torch {result['torch']}; engine: {result['engine']}.",
        f"{result['sentences']:,} sentences, {result['words']:,} words, {result['types']:,} types.",
        "",
        "| | words/s, median (range) | × AllenNLP sorted | 20 words alone | load | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for name, speed in speeds.items():
        side, every = sides[name], result["words_per_second"][name]
        ratio = f"{speed / peer:.2f}" if peer else "–"
        lines.append(
            f"| {name} | {speed:,.0f} ({min(every):,.0f}–{max(every):,.0f}) | {ratio} | "
            f"{1000 * median(result['latency'][side]):,.0f} ms | "
            f"{result['load_seconds'][side]:.1f} s | {result['peak'][side] / 1e9:.2f} GB |"
        )
    work = MFLOP_A_WORD + MFLOP_A_TYPE * result["types"] / result["words"]
    limit = 1000 * result["gflops"] / work
    roofline = f"{result['gflops']:,.0f} GFLOP/s of float32 products, {work:.0f} MFLOP per word"
    lines += ["", f"Roofline in the same run: {roofline}, so {limit:,.0f} words/s in float32."]
    if result["agreement"]:
        lines += ["", "| against AllenNLP without state | largest difference | relative | cosine |"]
        lines.append("|---|---|---|---|")
        for side, found in result["agreement"].items():
            lines.append(
                f"| {side} | {found['largest']:.1e} | {found['relative']:.1e} | "
                f"{found['cosine']:.5f} |"
            )
    for curve, points in result.get("growth", {}).items():
        lines += ["", f"| {curve} | words/s | peak |", "|---|---|---|"]
        for p in points:
            lines.append(f"| {p['at']:,} | {p['speed']:,.0f} | {p['peak'] / 1e9:.2f} GB |")
    return "\n".join(lines) + "\n"


def write_docs(page: str, marks: tuple[str, str] = MARKS) -> None:
    """Over what stands between the marks."""
    text = DOCS.read_text(encoding="utf-8")
    before, rest = text.split(marks[0])
    after = rest.split(marks[1])[1]
    DOCS.write_text(f"{before}{marks[0]}\n{page}{marks[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
