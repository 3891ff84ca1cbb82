"""The speed of two versions of elmore, side by side: an older source tree and a newer one.

    python benchmarks/versions.py BEFORE/src AFTER/src                   # all cases
    python benchmarks/versions.py BEFORE/src AFTER/src --cases embed store-fill --clock cpu

Both trees need their compiled kernel: `PYTHONPATH=TREE python -m elmore.engine.build_kernel`. Every
case has a child process for each tree. They are asked for a few short repeats in turn, so that
whatever the machine does in these seconds, it does to both. A side's time in a round is the lower
quartile of its repeats, because disturbances only add; a case's ratio is the median of the rounds.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from versions_child import CASES, Case

CHILD = Path(__file__).resolve().with_name("versions_child.py")
SIDES = ("before", "after")
CLOCKS = ("wall", "cpu")
SLOWER = 1.03
"""A case whose ratio is above this is flagged."""
_TURN_SECONDS, _ROUND_SECONDS = 0.1, 1.0  # of each side
_ROUNDS_A_PAIR = 3  # then both children are started anew
_LEAST_TURNS = 2  # in a round, so that each side goes first once
_MARKS = ("<S>", "</S>", "<UNK>")
_SENTENCES, _VOCABULARY = 8000, 20_000

Times = list[tuple[float, float, float]]
"""Of each repeat: wall seconds, processor seconds, and how many words or reads it was."""


class Failed(Exception):
    """A child ended before it was told to."""


@dataclass(frozen=True, slots=True)
class Round:
    """The repeats of both sides."""

    before: Times
    after: Times

    def seconds(self, side: str, clock: str) -> float:
        """For a word, a read or a call."""
        times: Times = getattr(self, side)
        each = sorted(one[CLOCKS.index(clock)] / one[2] for one in times)
        return each[len(each) // 4]

    def ratio(self, clock: str) -> float:
        return self.seconds("after", clock) / self.seconds("before", clock)


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of a case."""

    rounds: list[Round]

    def seconds(self, side: str, clock: str) -> float:
        return median(one.seconds(side, clock) for one in self.rounds)

    def ratios(self, clock: str) -> list[float]:
        return sorted(one.ratio(clock) for one in self.rounds)

    def ratio(self, clock: str) -> float:
        return median(self.ratios(clock))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a folder that holds `elmore`")
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all rounds here")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu on a busy machine")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--scratch", type=Path, help="in memory if not given, where that is known")
    options = parser.parse_args()
    memory = Path("/dev/shm")
    scratch = options.scratch or (memory if memory.is_dir() else None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the scratch folder is removed
    begin, failed = time.monotonic(), 0
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="versions-", dir=scratch) as folder:
        bench = Bench(Path(folder), (options.before, options.after), options.threads, options.clock)
        bench.prepare()
        for name in options.cases:
            try:
                results[name] = bench.measure(name, options.rounds)
                line = row(CASES[name], results[name], options.clock)
            except Failed as error:
                failed += 1
                line = f"{CASES[name].title}: failed. {error}"
            print(line, file=sys.stderr, flush=True)
            if options.json:
                write_json(options, results)
    print("\n".join(table(results, options.clock)))
    print(f"\n{time.monotonic() - begin:.0f} s, {options.threads} threads, {options.clock} time")
    return 1 if failed else 0


# What the children work on ------------------------------------------------------------------------


class Bench:
    """A scratch folder with both trees, the text and a model."""

    def __init__(self, folder: Path, trees: tuple[Path, Path], threads: int, clock: str):
        self.folder, self.threads, self.clock = folder, threads, clock
        self.trees = dict(zip(SIDES, trees, strict=True))
        self.shared = folder / "shared"

    def prepare(self) -> None:
        self.shared.mkdir()
        engines = set[str]()
        for side, tree in self.trees.items():
            if not (tree / "elmore" / "__init__.py").is_file():
                sys.exit(f"{tree}: no elmore/__init__.py there; expected a source tree.")
            self._own(side).mkdir()
            self._tree(side, kernel=True).symlink_to(tree.resolve())
            ignored = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(tree, self._tree(side, kernel=False), ignore=ignored)
            engines.add(engine := self._engine(side))
            print(f"{side}: {tree}, {engine}", file=sys.stderr)
        if len(engines) > 1:
            print("The engines differ: build both kernels first.", file=sys.stderr)
        sentences = list(made_up_sentences(next(self.trees["before"].rglob("senses.tsv"))))
        write_text(sentences, self.shared)
        self._elmore(
            *("pretrain", self.shared / "dev-plain.txt", "--output", self.shared / "wide"),
            *("--recipe", "elmo-small", "--vocabulary", self.shared / "vocab.txt", "--quiet"),
            *("--steps", "1", "--set", "batches.rows=2", "--set", "softmax.n_samples=10"),
        )

    # Names of the same length for both sides: the length of a path can move memory, and so times.
    def _own(self, side: str) -> Path:
        return self.folder / f"own-{SIDES.index(side)}"

    def _tree(self, side: str, kernel: bool) -> Path:
        return self.folder / f"{'src' if kernel else 'bare'}-{SIDES.index(side)}"

    def _environment(self, tree: Path) -> dict[str, str]:
        n = str(self.threads)
        fixed = {"OMP_NUM_THREADS": n, "MKL_NUM_THREADS": n, "PYTHONHASHSEED": "0"}
        if self.clock == "cpu":
            fixed["OMP_WAIT_POLICY"] = "passive"  # threads that wait take no processor time
        return {**os.environ, **fixed, "PYTHONPATH": str(tree), "PYTHONWARNINGS": "ignore"}

    def _elmore(self, *arguments: object, side: str = "before") -> str:
        command = [sys.executable, "-P", "-m", "elmore", *map(str, arguments)]
        environment = self._environment(self._tree(side, kernel=True))
        return subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def _engine(self, side: str) -> str:
        """What `elmore doctor` says of the kernel."""
        lines = self._elmore("doctor", side=side).splitlines()
        found = (" ".join(line.split()) for line in lines if line.startswith("engine"))
        return next(found, "engine unknown")

    def measure(self, name: str, rounds: int) -> Result:
        """New processes now and then: where one happens to lie in memory can make it slower."""
        done: list[Round] = []
        while len(done) < rounds:
            done += self._measure(name, min(_ROUNDS_A_PAIR, rounds - len(done)))
        return Result(done)

    def _measure(self, name: str, rounds: int) -> list[Round]:
        with ExitStack() as stack:
            children = {side: stack.enter_context(self._child(name, side)) for side in SIDES}
            clock = CLOCKS.index(self.clock)
            warm_up = [times for side in SIDES for times in children[side].answer()[-3:]]
            one = median(times[clock] for times in warm_up)
            repeats = max(1, round(_TURN_SECONDS / one))
            turns = max(_LEAST_TURNS, round(_ROUND_SECONDS / (repeats * one)))
            return [_round(children, turns, repeats) for _ in range(rounds)]

    @contextmanager
    def _child(self, name: str, side: str) -> Iterator["Child"]:
        tree = self._tree(side, CASES[name].kernel)
        arguments = (name, tree, self.shared, self._own(side))
        log = self.folder / f"{side}.log"
        with log.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", CHILD, *map(str, arguments)],
                env=self._environment(tree),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            yield Child(process, side, log)
        finally:
            process.communicate()  # closes its input: it ends by itself


def _round(children: dict[str, "Child"], turns: int, repeats: int) -> Round:
    """Turns of both sides; who goes first alternates."""
    times: dict[str, Times] = {side: [] for side in SIDES}
    for turn in range(turns):
        for side in SIDES if turn % 2 == 0 else reversed(SIDES):
            times[side] += children[side].turn(repeats)
    return Round(times["before"], times["after"])


class Child:
    """The parent's side of the talk."""

    def __init__(self, process: "subprocess.Popen[str]", side: str, log: Path):
        self.process, self.side, self.log = process, side, log

    def turn(self, repeats: int) -> Times:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # `answer` tells of a child that has ended
            self.process.stdin.write(f"{repeats}\n")
            self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Times:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.log.read_text(encoding="utf-8").strip().splitlines()[-1:]
            raise Failed(f"{self.side}: {' '.join(last)}")
        times: Times = json.loads(line)
        return times


def made_up_sentences(senses: Path) -> Iterator[list[str]]:
    """Each from the beginning of one sentence and the end of another, some words made up."""
    lines = senses.read_text(encoding="utf-8").splitlines()
    real = [line.split("\t")[3].split() for line in lines if line.startswith("en\t")]
    rng, seen = random.Random(0), set[tuple[str, ...]]()
    while len(seen) < _SENTENCES:
        parts = rng.sample(real, rng.choice((2, 2, 2, 2, 3)))
        words = [*parts[0][: rng.randint(2, 9)], *(w for part in parts[1:] for w in part[4:])]
        words = [_made_up_word(rng) if rng.random() < 0.03 else word for word in words]
        if tuple(words) not in seen:
            seen.add(tuple(words))
            yield words


def _made_up_word(rng: random.Random) -> str:
    syllables = ("ka", "lo", "mer", "tin", "dra", "su", "vel", "ron", "bi", "ster")
    return "".join(rng.choices(syllables, k=rng.randint(2, 4))).capitalize()


def write_text(sentences: list[list[str]], folder: Path) -> None:
    lines = [" ".join(words) + "\n" for words in sentences]
    (folder / "sentences.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "dev-plain.txt").write_text("".join(lines[:50]), encoding="utf-8")
    counts = Counter(word for words in sentences for word in words)
    listed = [*_MARKS, *(word for word, _ in counts.most_common())]
    listed += [f"made-up-{i}" for i in range(_VOCABULARY - len(listed))]
    (folder / "vocab.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")
    for name, some in (("train.txt", sentences[:100]), ("dev.txt", sentences[100:130])):
        blocks = ["".join(f"{word} {_tag(word)}\n" for word in words) for words in some]
        (folder / name).write_text("\n".join(blocks), encoding="utf-8")


def _tag(word: str) -> str:
    """Capitals are names."""
    return "O" if not word[0].isupper() else "B-LOC" if len(word) % 2 else "B-PER"


# What is told -------------------------------------------------------------------------------------


def table(results: dict[str, Result], clock: str) -> Iterator[str]:
    other = CLOCKS[1 - CLOCKS.index(clock)]
    yield f"| case | before | after | time, after/before | min–max | by {other} | |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for name, result in results.items():
        yield row(CASES[name], result, clock)


def row(case: Case, result: Result, clock: str) -> str:
    before, after = (shown(result.seconds(side, clock), case.unit) for side in SIDES)
    ratio, ratios = result.ratio(clock), result.ratios(clock)
    other = result.ratio(CLOCKS[1 - CLOCKS.index(clock)])
    flag = "SLOWER" if ratio > SLOWER else ""
    if flag and ratios[0] <= 1:
        flag += " (rounds disagree)"
    spread = f"{ratios[0]:.3f}–{ratios[-1]:.3f}"
    return f"| {case.title} | {before} | {after} | {ratio:.3f} | {spread} | {other:.3f} | {flag} |"


def shown(seconds: float, unit: str) -> str:
    match unit:
        case "words/s":
            return f"{1 / seconds:,.0f} {unit}"
        case "ms":
            return f"{1e3 * seconds:,.1f} {unit}"
        case _:
            return f"{1e6 * seconds:,.1f} {unit}"


def write_json(options: argparse.Namespace, results: dict[str, Result]) -> None:
    found = {
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "python": platform.python_version(),
        "threads": options.threads,
        "clock": options.clock,
        "cases": {
            name: {
                "title": CASES[name].title,
                "ratio": {clock: result.ratio(clock) for clock in CLOCKS},
                "seconds": [asdict(one) for one in result.rounds],
            }
            for name, result in results.items()
        },
    }
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
