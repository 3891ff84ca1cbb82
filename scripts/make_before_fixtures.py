"""Write tests/before: small things that one version of elmore has made, and what it says of them.

    PYTHONPATH=OLD/src python scripts/make_before_fixtures.py

OLD is a checkout of the version whose files are to be kept, with its kernel built there
(`python -m elmore.engine.build_kernel`). Later versions must open these files, go on with them and
give the same answers: tests/test_before.py asks them.

The files kept are those of the commit 113e212. To make them anew takes that version, because runs
are stopped here by reaching into its modules, and the foreign models come from its tests.
Everything else goes through the command line, as tests/before/commands.py has it.

All of it is made in one fixed folder (`commands.ROOT`), copied to tests/before as it stands, and
only then gone on with, for the answers. What differs between two runs of this script is the clock:
`seconds` in logs and training states. Lock files and TensorBoard's, which name a machine and a
moment, are not kept.
"""

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tests.before import answers, commands  # noqa: E402
from tests.checkpoint import foreign_models  # noqa: E402
from tests.tasks.tiny_data import PATTERNS, squad, write_columns  # noqa: E402

import elmore  # noqa: E402
import elmore.cli.embed as cli_embed  # noqa: E402
import elmore.cli.pretrain as cli_pretrain  # noqa: E402
import elmore.cli.task as cli_task  # noqa: E402
import elmore.search.build as search_build  # noqa: E402
from elmore.cli.main import main as elmore_main  # noqa: E402

TARGET = REPOSITORY / "tests" / "before"
STOPPED = 128 + signal.SIGINT
KEPT = ["data", "foreign", "models", "stores", "indexes", "dumps", "runs", "tasks", "compare"]
LEFT_OUT = ["*lock*", "tensorboard", "cache"]


def main() -> None:
    print(f"made by {elmore.__file__}")
    torch.set_num_threads(1)
    root = Path(commands.ROOT)
    shutil.rmtree(root, ignore_errors=True)
    for name in ("data", "foreign", "models", "stores", "indexes", "dumps", "made"):
        (root / name).mkdir(parents=True)
    os.chdir(root)
    write_data(Path("data"))
    write_foreign(Path("foreign"))
    make_all()
    keep(root)
    write_expected(root)


# Texts and examples -------------------------------------------------------------------------------


def write_data(folder: Path) -> None:
    """Every file that the commands read."""
    rng = random.Random(5)
    for number in range(2):
        write(folder / f"corpus-{number}.txt", [circle(rng) for _ in range(30)])
    write(folder / "valid.txt", [circle(rng) for _ in range(6)])
    lines = ["The river bank .", "", "  w1 w2  ", "naïve 東京 a/b", "w1 w2", "..", "x " * 14]
    write(folder / "lines.txt", [*lines, "xxxxxxxxxxxxxxxxxxxxxxxxxxx", "<S> the </S>", "w3 w4 w5"])
    write(folder / "uses.txt", [use(i) for i in range(36)])
    write_tagging(folder)
    for part, n in (("train", 12), ("dev", 6), ("test", 6)):
        write(folder / f"sst-{part}.trees", [tree(rng) for _ in range(n)])
        write(folder / f"entailment-{part}.tsv", [pair(rng) for _ in range(n)])
        (folder / f"qa-{part}.json").write_text(squad(), encoding="utf-8")
    write(folder / "sst-plain.txt", ["it is good .", "it is not bad", "nobody knows ."])
    write(folder / "entailment-plain.tsv", ["a man sleeps\ta man rests", "a dog eats\tnobody eats"])
    (folder / "qa-plain.json").write_text(squad(), encoding="utf-8")


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def circle(rng: random.Random) -> str:
    """Words that follow one another in a loose circle."""
    start, n = rng.randrange(25), rng.randrange(2, 18)
    return " ".join(f"w{(start + k + rng.randrange(2)) % 25}" for k in range(n))


def use(i: int) -> str:
    nouns, places = ["bank", "river", "money", "play", "stage", "ball"], ["near", "behind", "over"]
    return f"the {nouns[i % 6]} {places[i % 3]} the {nouns[(i // 6) % 6]} x{i} ."


def write_tagging(folder: Path) -> None:
    """CoNLL's columns, the same words as CoNLL-U, and static vectors. Every sentence of train, dev,
    test and plain is in ner-sentences.txt too, for a store."""
    write_columns(folder)
    sentences = []
    for part in ("train", "dev", "test"):
        text = (folder / f"{part}.txt").rename(folder / f"ner-{part}.txt").read_text()
        blocks = [[line.split() for line in b.splitlines()] for b in text.strip().split("\n\n")]
        sentences += [" ".join(word for word, _ in block) for block in blocks]
        tables = [[conllu(i, word) for i, (word, _) in enumerate(b, 1)] + [""] for b in blocks]
        write(folder / f"pos-{part}.conllu", [line for table in tables for line in table])
    names = {"PER": "Carla", "LOC": "New York"}
    plain = [pattern.format(**names) for pattern in PATTERNS]
    for name in ("ner", "pos"):
        write(folder / f"{name}-plain.txt", plain)
    write(folder / "ner-sentences.txt", sorted({*sentences, *plain}))


def conllu(number: int, word: str) -> str:
    tag = "PUNCT" if word == "." else "PROPN" if word[0].isupper() else "VERB"
    return "\t".join([str(number), word, word, tag, *"_" * 6])


def tree(rng: random.Random) -> str:
    word = rng.choice(["good", "bad", "fine", "dull"])
    grade = 4 if word in ("good", "fine") else 0
    if rng.random() < 0.5:
        return f"({grade} (2 It) ({grade} (2 is) ({grade} {word})))"
    return f"({4 - grade} (2 It) ({4 - grade} (1 not) ({grade} {word})))"


def pair(rng: random.Random) -> str:
    who, what = rng.choice(["a man", "a dog", "a child"]), rng.choice(["sleeps", "eats", "runs"])
    second, label = rng.choice([(f"{who} {what}", 0), (f"nobody {what}", 2), ("it rains", 1)])
    return f"{who} {what}\t{second}\t{label}"


def write_foreign(folder: Path) -> None:
    """Small random models in published formats."""
    foreign_models.make_manylangs(folder / "manylangs")
    without = json.loads(json.dumps(foreign_models.MANYLANGS))
    without["token_embedder"]["word_dim"] = 0
    foreign_models.make_manylangs(folder / "manylangs-without-words", without)
    foreign_models.make_task(folder / "task")
    foreign_models.make_transformer(folder / "transformer")


# The fixtures -------------------------------------------------------------------------------------


def make_all() -> None:
    run = answers.run
    for name, source in commands.FOREIGN.items():
        run("convert", f"foreign/{source}", f"models/{name}")
    for name, kind in commands.TRAINED.items():
        run(*commands.RUNS[kind], "--output", f"made/{kind}")
        run("convert", f"made/{kind}", f"models/{name}")
    for name, command in commands.STORES.items():
        run("store", "fill", "data/lines.txt", f"stores/{name}", *command)
        run("store", "fill", "data/ner-sentences.txt", f"stores/{name}", *command)
    for name, command in commands.INDEXES.items():
        if name == "unfinished":
            with index_stops():
                stopped(*command, "--output", f"indexes/{name}")
        else:
            run(*command, "--output", f"indexes/{name}")
    for name, (before, after) in commands.DUMPS.items():
        if name == "unfinished.hdf5":
            with reading_stops():
                stopped(*before, f"dumps/{name}", *after)
        else:
            run(*before, f"dumps/{name}", *after)
    for name, command in commands.RUNS.items():
        with pretraining_stops(commands.STOPS[name]):
            stopped(*command, "--output", f"runs/{name}")
    for name, command in commands.TASKS.items():
        if name in commands.TASK_STOPS:
            with epochs_stop("", commands.TASK_STOPS[name]):
                stopped(*command, "--output", f"tasks/{name}")
        else:
            run(*command, "--output", f"tasks/{name}")
    training, epoch = commands.COMPARE_STOP
    with epochs_stop(f"{training}/", epoch):
        stopped(*commands.COMPARE, "--output", "compare")


def stopped(*arguments: str) -> None:
    """A command that ends as if Ctrl-C had been pressed."""
    code = elmore_main(list(arguments))
    assert code in (STOPPED, 130), f"{arguments} ended with {code}"


@contextmanager
def pretraining_stops(step: int) -> Iterator[None]:
    def told(self: Any, progress: Any, figures: Any) -> None:
        if progress.step == step:
            signal.raise_signal(signal.SIGINT)

    with patch.object(cli_pretrain._display, "step", told):
        yield


@contextmanager
def epochs_stop(training: str, epoch: int) -> Iterator[None]:
    def told(self: Any, now: Any, before: str = "") -> None:
        if now.dev is not None and now.epoch == epoch and before.startswith(training):
            raise KeyboardInterrupt(signal.SIGINT)

    with patch.object(cli_task.Display, "epoch", told):
        yield


@contextmanager
def index_stops() -> Iterator[None]:
    taken, take = 0, search_build._Filling._take

    def counted(self: Any, embedding: Any) -> None:
        nonlocal taken
        take(self, embedding)
        taken += 1
        if taken == commands.INDEX_STOP:
            signal.raise_signal(signal.SIGINT)

    with patch.object(search_build._Filling, "_take", counted):
        yield


@contextmanager
def reading_stops() -> Iterator[None]:
    read = vars(cli_embed)["read_lines"]

    def some(*arguments: Any, **options: Any) -> Iterator[str]:
        for number, line in enumerate(read(*arguments, **options)):
            if number == commands.DUMP_STOP:
                raise KeyboardInterrupt(signal.SIGINT)
            yield line

    with patch.object(cli_embed, "read_lines", some):
        yield


def keep(root: Path) -> None:
    """The fixtures as they stand, without files that name a machine and a moment."""
    for name, source in commands.FOREIGN.items():
        if name not in commands.FOREIGN_KEPT:
            shutil.rmtree(root / "foreign" / source)
    for name in KEPT:
        shutil.rmtree(TARGET / name, ignore_errors=True)
        shutil.copytree(root / name, TARGET / name, ignore=shutil.ignore_patterns(*LEFT_OUT))


# The answers --------------------------------------------------------------------------------------


def write_expected(root: Path) -> None:
    """Of copies made as the test makes them, each in the place where the fixtures were made."""
    exact: dict[str, Any] = {}
    computed: dict[str, Any] = {}
    for group, name in answers.CASES:
        os.chdir("/")
        shutil.rmtree(root)
        answers.copied(root)
        os.chdir(root)
        for key, value in answers.answer(group, name).items():
            into = computed if answers.is_computed(value) else exact
            into[f"{group}/{name}/{key}"] = value
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in exact.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (TARGET / "expected.json").write_text(text, encoding="utf-8")
    np.savez_compressed(TARGET / "expected.npz", **computed)
    os.chdir("/")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
