"""Training speed beside AllenNLP's own parts: the same sentences, turns taken one after the other
in one run, medians and spread, peak memory. Writes results/train.json and results/train.md.

    benchmarks/peers.sh                                  # once: the peer's environment
    python benchmarks/train.py --text FILE               # one sentence a line
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from train_child import Case, Job

from elmore.files.text_file import read_lines
from elmore.text.tokenize import words
from elmore.text.vocabulary import MARKS

HERE = Path(__file__).resolve().parent
_LSTM, _TRANSFORMER = "LSTM 2×1024/128", "Transformer 6×512/2048"
CASES = {
    "lstm": Case(
        f"{_LSTM}; AllenNLP: 2,560-word batches of like length, sparse softmax",
        "elmo-small", peer_words=128 * 20, peer_sparse=True, target=2.5,
    ),
    "lstm-128-sentences": Case(
        f"{_LSTM}; AllenNLP: 128 sentences as they come, sparse softmax",
        "elmo-small", peer_sentences=128, peer_sparse=True, target=2.5,
    ),
    "transformer": Case(
        f"{_TRANSFORMER}; AllenNLP: 2,000-word batches of like length, sparse softmax",
        "elmo-transformer", peer_words=2000, peer_sparse=True, target=2.0,
    ),
    "transformer-as-shipped": Case(
        f"{_TRANSFORMER}; AllenNLP as its config has it: 64 sentences of like length, dense",
        "elmo-transformer", peer_sentences=64, peer_sorted=True, peer_sparse=False, target=2.0,
    ),
    "lstm-bf16": Case(
        f"{_LSTM}, products in bfloat16; AllenNLP (float32): as in lstm",
        "elmo-small", peer_words=128 * 20, peer_sparse=True, target=2.5,
        settings=("precision=bfloat16",),
    ),
    "transformer-bf16": Case(
        f"{_TRANSFORMER}, products in bfloat16; AllenNLP (float32): as in transformer",
        "elmo-transformer", peer_words=2000, peer_sparse=True, target=2.0,
        settings=("precision=bfloat16",),
    ),
}  # fmt: skip
SIDES = ("elmore", "allennlp")
_PEAKS = ("peak memory elmore", "AllenNLP")


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    text: Path
    cases: list[str]
    rounds: int
    steps: int
    warm_up: int
    threads: int
    sentences: int
    vocabulary: int
    peer: Path
    output: Path


@dataclass(frozen=True, slots=True)
class Side:
    """What one side did in one case, a number a turn."""

    words_per_second: list[float]
    without_reading: list[float] | None
    """The same with the making of batches taken off, where the side can tell."""
    words_per_cpu_second: list[float]
    """Of all threads together; says whether something else disturbed the turns."""
    losses: list[float]
    peak: int
    """Bytes, the whole process."""

    @property
    def speed(self) -> float:
        return median(self.words_per_second)


def main() -> None:
    options = _options()
    if not options.peer.is_file():
        sys.exit(f"{options.peer}: no such file; run benchmarks/peers.sh first, or give --peer.")
    found: dict[str, dict[str, Side]] = {}
    for name in options.cases:
        with tempfile.TemporaryDirectory(prefix="elmore-bench-") as folder:
            prepare(options, Path(folder))
            found[name] = measure(CASES[name], options, Path(folder))
        write(found, options)
        print(f"{name}: {_summary(found[name])}", file=sys.stderr, flush=True)
    print(table(found, options))


# The text -----------------------------------------------------------------------------------------


def prepare(options: Options, folder: Path) -> None:
    """The sentences as words between spaces, and the vocabulary in both sides' forms."""
    lines = islice(read_lines(options.text), options.sentences)
    sentences = [" ".join(words(line)) for line in lines if line.strip()]
    (folder / "sentences.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    counts = Counter(word for sentence in sentences for word in sentence.split())
    real = [word for word, _ in counts.most_common() if word not in MARKS]
    n_made_up = options.vocabulary - len(MARKS) - len(real)
    made_up = [f"made-up-{i}" for i in range(n_made_up)]
    kept = [*real, *made_up][: options.vocabulary - len(MARKS)]
    (folder / "vocab.txt").write_text("\n".join([*MARKS, *kept]) + "\n", encoding="utf-8")
    theirs = folder / "allennlp-vocabulary"
    theirs.mkdir()
    listed = ["@@UNKNOWN@@", *MARKS[:2], *kept]
    (theirs / "tokens.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")
    (theirs / "non_padded_namespaces.txt").write_text("*tags\n*labels\n", encoding="utf-8")


# The race -----------------------------------------------------------------------------------------


def measure(case: Case, options: Options, folder: Path) -> dict[str, Side]:
    """Turn by turn, one side waiting while the other works; who goes first alternates."""
    job = Job(case, folder, options.warm_up, options.steps)
    pythons = {"elmore": Path(sys.executable), "allennlp": options.peer}
    children = {side: _start(side, pythons[side], job, options.threads) for side in SIDES}
    answers: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    try:
        for i in range(options.rounds):
            for side in SIDES if i % 2 == 0 else reversed(SIDES):
                time.sleep(0.5)  # threads of the other side may still spin
                answers[side].append(_turn(children[side], side))
    finally:
        for child in children.values():
            _end(child)
    return {side: _side(answers[side]) for side in SIDES}


def _start(side: str, python: Path, job: Job, threads: int) -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    child = subprocess.Popen(
        [python, HERE / f"train_{side}.py", job.line()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    _answer(child, side)  # warmed up: one after the other, so that neither disturbs the other
    return child


def _turn(child: "subprocess.Popen[str]", side: str) -> dict[str, Any]:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    return _answer(child, side)


def _answer(child: "subprocess.Popen[str]", side: str) -> dict[str, Any]:
    """The child's next line of JSON; libraries may print lines of their own before it."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    sys.exit(f"{side}: the process ended with {child.wait()}; its message stands above.")


def _end(child: "subprocess.Popen[str]") -> None:
    assert child.stdin is not None
    child.stdin.close()  # the child's next line is empty: it leaves by itself
    try:
        child.wait(timeout=30)
    except subprocess.TimeoutExpired:
        child.kill()


def _side(answers: list[dict[str, Any]]) -> Side:
    speeds = [a["words"] / a["seconds"] for a in answers]
    pure = [a["words"] / (a["seconds"] - (a["reading"] or 0.0)) for a in answers]
    told = answers[0]["reading"] is not None
    return Side(
        words_per_second=speeds,
        without_reading=pure if told else None,
        words_per_cpu_second=[a["words"] / a["cpu"] for a in answers],
        losses=[a["loss"] for a in answers],
        peak=max(a["peak"] for a in answers),
    )


# The results --------------------------------------------------------------------------------------


def write(found: dict[str, dict[str, Side]], options: Options) -> None:
    """After every case, so that a run cut short leaves what it has."""
    options.output.mkdir(parents=True, exist_ok=True)
    sides = {case: {s: asdict(side) for s, side in pair.items()} for case, pair in found.items()}
    record = {"machine": machine(options.threads), "options": _plain(options), "cases": sides}
    text = json.dumps(record, indent=2) + "\n"
    (options.output / "train.json").write_text(text, encoding="utf-8")
    (options.output / "train.md").write_text(table(found, options) + "\n", encoding="utf-8")


def table(found: dict[str, dict[str, Side]], options: Options) -> str:
    """Words predicted a second (a word that both directions predict counts once)."""
    about, n, k = machine(options.threads), options.rounds, options.steps
    story = (
        f"Training, words/s: median (lowest to highest) of {n} turns of {k} steps. {about['cpu']}, "
        f"{options.threads} threads, torch {about['torch']}; 8,192 samples of "
        f"{options.vocabulary:,} words. The second ratio gives AllenNLP its batches for nothing."
    )
    heads = ["case", "elmore", "AllenNLP", "ratio", "second ratio", "target", *_PEAKS]
    lines = [story, "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(_row(name, pair) for name, pair in found.items())])


def _row(name: str, pair: dict[str, Side]) -> str:
    ours, theirs = (pair[side] for side in SIDES)
    pure = median(theirs.without_reading) if theirs.without_reading else theirs.speed
    cells = [
        CASES[name].title,
        *(_spread(side) for side in (ours, theirs)),
        f"**{ours.speed / theirs.speed:.2f}×**",
        f"{ours.speed / pure:.2f}×",
        f"{CASES[name].target:.1f}×",
        *(f"{side.peak / 1e9:.2f} GB" for side in (ours, theirs)),
    ]
    return "| " + " | ".join(cells) + " |"


def _spread(side: Side) -> str:
    low, high = min(side.words_per_second), max(side.words_per_second)
    return f"{side.speed:,.0f} ({low:,.0f} to {high:,.0f})"


def _summary(pair: dict[str, Side]) -> str:
    return ", ".join(f"{name} {_spread(side)}" for name, side in pair.items())


def machine(threads: int) -> dict[str, Any]:
    """Where this was measured."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor()
    return {"cpu": cpu, "threads": threads, "torch": torch.__version__}


def _plain(options: Options) -> dict[str, Any]:
    """What shaped the numbers; the text by its name, since folders differ from place to place."""
    kept = {k: v for k, v in asdict(options).items() if k not in ("peer", "output", "cases")}
    return {**kept, "text": options.text.name}


def _options() -> Options:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "elmore/bench-env"
    folder = Path(os.environ.get("ELMORE_BENCH_ENV", cache))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side (7)")
    parser.add_argument("--steps", type=int, default=3, help="training steps in a turn (3)")
    parser.add_argument("--warm-up", type=int, default=3, help="steps before the first turn (3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="(all cores)")
    parser.add_argument("--sentences", type=int, default=5000, help="lines of the text used")
    parser.add_argument("--vocabulary", type=int, default=793_471, help="words of the softmax")
    parser.add_argument("--peer", type=Path, default=folder / "bin/python", help="peer's python")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
