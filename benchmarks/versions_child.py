"""The cases of versions.py, and the child process that runs one of them on one source tree. The
child warms up and then takes turns: it reads a number of repeats and answers with their times as
one line of JSON. Only the standard library is imported at the top, because versions.py reads CASES.
"""

import gc
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

# Names that are not `elmore.X`, and the modules they are in, tried in this order.
# When a version moves a name, add its new module here.
HOMES: dict[str, tuple[str, ...]] = {
    "Index": ("elmore.search.index",),
    "pretrain": ("elmore.pretrain.run", "elmore.pretrain.pretrain"),
    "find_recipe": ("elmore.pretrain.recipes",),
    "override": ("elmore.pretrain.recipes", "elmore.config"),
    "fit": ("elmore.tasks.fit",),
    "find_task": ("elmore.tasks.recipes",),
    "main": ("elmore.__main__",),
}


def internal(name: str) -> Any:
    for home in HOMES[name]:
        try:
            return getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("elmore"):
                raise
        except AttributeError:
            pass
    raise ImportError(f"No {name} in {', '.join(HOMES[name])}; add its module to HOMES.")


def forget_words(embedder: Any) -> None:
    """The engine keeps word vectors from call to call: without this, later calls do less."""
    runner = embedder.runner if hasattr(embedder, "runner") else embedder.engine
    runner.forget()


MODEL = "small-en"
BATCH = 32
_NEVER = 10**9
_WARM_UP_SECONDS = 0.5


class Turns:
    """Times the repeats of a case, and talks with the parent."""

    def __init__(self, answers: TextIO):
        self._answers = answers
        self._times: list[tuple[float, float, float]] = []
        self._left: int | None = None  # repeats in this turn; None in the warm-up
        self.start()

    def start(self) -> None:
        """The next repeat begins now; what came before is not in its time."""
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    def lap(self, amount: float = 1) -> bool:
        """A repeat is done, of so many words or reads. False: the parent wants no more."""
        wall, cpu = time.perf_counter() - self._wall, _cpu_seconds() - self._cpu
        self._times.append((wall, cpu, amount))
        if self._turn_is_over() and not self._wait():
            return False
        self.start()
        return True

    def _turn_is_over(self) -> bool:
        if self._left is None:
            warm = sum(cpu for _, cpu, _ in self._times[1:])  # the first may hold the set-up
            return len(self._times) > 2 and warm > _WARM_UP_SECONDS
        self._left -= 1
        return self._left == 0

    def _wait(self) -> bool:
        """Answer for this turn; then wait for the next."""
        gc.collect()  # now, and not in the other side's turn
        print(json.dumps(self._times), file=self._answers, flush=True)
        self._times = []
        self._left = int(sys.stdin.readline() or 0)
        return self._left > 0


def _cpu_seconds() -> float:
    """Of all threads, and of child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class Job:
    """What a case is given."""

    shared: Path
    """Holds sentences.txt, vocab.txt, train.txt, dev.txt and the model `wide`."""
    own: Path
    """This tree's folder: what a case has made here, a later case may find."""
    turns: Turns

    def sentences(self, n: int) -> list[list[str]]:
        lines = (self.shared / "sentences.txt").read_text(encoding="utf-8").splitlines()
        assert len(lines) >= n
        return [line.split() for line in lines[:n]]

    def repeat(
        self, run: Callable[[], object], amount: float = 1, before: Callable[[], object] = int
    ) -> None:
        """`before` prepares a repeat and is not timed."""
        while True:
            before()
            self.turns.start()
            run()
            if not self.turns.lap(amount):
                return


def _drain(things: Iterable[object]) -> None:
    for _ in things:
        pass


def _n_words(sentences: list[list[str]]) -> int:
    return sum(map(len, sentences))


# Embedding ----------------------------------------------------------------------------------------


def embedding(job: Job, precision: str = "float32", wide: bool = False, n: int = 300) -> None:
    from elmore import Embedder

    model = job.shared / "wide" if wide else MODEL
    embedder = Embedder.load(model, device="cpu", precision=precision)
    sentences = job.sentences(n)
    job.repeat(
        lambda: _drain(embedder.stream(sentences)),
        _n_words(sentences),
        before=lambda: forget_words(embedder),
    )


def elmo_module(job: Job) -> None:
    import torch

    from elmore import Elmo

    elmo = Elmo.load(MODEL).eval()
    sentences = job.sentences(300)
    batches = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    with torch.no_grad():
        job.repeat(lambda: [elmo(batch) for batch in batches], _n_words(sentences))


def dump(job: Job) -> None:
    """The command itself, with the loading of the model."""
    main = internal("main")
    text, output = job.own / "dump.txt", job.own / "dump.hdf5"
    sentences = job.sentences(500)
    text.write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
    command = ["embed", str(text), str(output), "--model", MODEL, "--quiet"]

    def run() -> None:
        assert main(command) == 0

    job.repeat(run, _n_words(sentences), before=lambda: output.unlink(missing_ok=True))


# Training -----------------------------------------------------------------------------------------


class _Enough(Exception):
    """The parent wants no more turns."""


LSTM = ("elmo-laptop", ["softmax_start=random", "loop.minutes=null"], 1)
SMALL_TRANSFORMER = (
    "elmo-transformer",
    [
        "model.words.dim=128",
        "model.words.n_highway=1",
        "model.words.filters=[[1,32],[2,32],[3,64],[4,128]]",
        "model.context.dim=128",
        "model.context.ff_dim=512",
        "model.context.n_layers=2",
        "model.context.n_heads=4",
        "softmax.n_samples=1024",
        "batches.words=1000",
    ],
    2,
)


def pretraining(job: Job, recipe: tuple[str, list[str], int]) -> None:
    name, settings, steps = recipe
    never = [f"loop.steps={_NEVER}", "epochs=null", f"loop.checkpoint_minutes={_NEVER}"]
    never.append("precision=float32")  # what auto means differs between versions
    config = internal("override")(
        internal("find_recipe")(name), [*settings, *never, f"loop.log_steps={steps}"]
    )
    words = 0

    def report(progress: Any, _: object) -> None:
        nonlocal words
        # The loop counts the predictions of both directions.
        done, words = (progress.words - words) / 2, progress.words
        if not job.turns.lap(done):
            raise _Enough

    try:
        internal("pretrain")(
            [job.shared / "sentences.txt"],
            _emptied(job.own / "run"),
            config,
            vocabulary=job.shared / "vocab.txt",
            report=report,
        )
    except _Enough:
        return


def task(job: Job, encoder: str) -> None:
    settings = [f"encoder.source={encoder}", f"epochs={_NEVER}", f"patience={_NEVER}"]
    config = internal("override")(
        internal("find_task")("ner"), [*settings, f"halve_after={_NEVER}", "task.hidden=100"]
    )

    def report(now: Any) -> None:
        if now.dev is not None and not job.turns.lap():
            raise _Enough

    train = config.task.read(job.shared / "train.txt", training=True).examples
    dev = config.task.read(job.shared / "dev.txt").examples
    try:
        internal("fit")(config, train, dev, _emptied(job.own / "fit"), report=report)
    except _Enough:
        return


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


# Stores and indexes -------------------------------------------------------------------------------


def store_read(job: Job, in_order: bool) -> None:
    from elmore import Embedder, Store

    sentences, path = job.sentences(1000), job.own / "read.store"
    if not path.exists():
        embedder = Embedder.load(MODEL, device="cpu")
        Store.create(path, embedder, precision="float16").fill(sentences)
    store = Store.open(path)
    random.Random(0).shuffle(sentences)

    def at_random() -> None:
        for words in sentences:
            store[words]

    job.repeat((lambda: _drain(store)) if in_order else at_random, len(sentences))


def store_fill(job: Job) -> None:
    from elmore import Embedder, Store

    sentences, path = job.sentences(300), job.own / "fill.store"
    embedder = Embedder.load(MODEL, device="cpu")
    embedder.fingerprint  # noqa: B018 - computed once and then kept

    def before() -> None:
        _emptied(path)
        forget_words(embedder)

    job.repeat(
        lambda: Store.create(path, embedder, precision="float16").fill(sentences),
        _n_words(sentences),
        before,
    )


def store_add(job: Job) -> None:
    """Writing alone: the vectors are there already."""
    from elmore import Embedder, Store

    sentences, path = job.sentences(300), job.own / "add.store"
    embedder = Embedder.load(MODEL, device="cpu")
    embeddings = embedder.embed(sentences)
    embedder.fingerprint  # noqa: B018 - computed once and then kept
    job.repeat(
        lambda: Store.create(path, embedder, precision="int8").add(embeddings),
        _n_words(sentences),
        before=lambda: _emptied(path),
    )


def index_build(job: Job) -> None:
    from elmore import Embedder

    index_class, path = internal("Index"), job.own / "build.index"
    sentences = job.sentences(300)
    embedder = Embedder.load(MODEL, device="cpu")

    def before() -> None:
        _emptied(path)
        forget_words(embedder)

    job.repeat(lambda: index_class.build(sentences, embedder, path), _n_words(sentences), before)


def _index(job: Job) -> tuple[Any, Any]:
    """An index so large that searches over all words are approximate, and its model."""
    from elmore import Embedder

    index_class, path = internal("Index"), job.own / "search.index"
    embedder = Embedder.load(MODEL, device="cpu")
    if not path.exists():
        index_class.build(job.sentences(5000), embedder, path, max_uses=2000)
    return index_class.open(path, embedder), embedder


def index_neighbors(job: Job, same_word: bool) -> None:
    index, embedder = _index(job)
    asked: list[tuple[Any, str | None]] = []
    for embedded in embedder.embed(job.sentences(100)):
        position = max(range(len(embedded.words)), key=lambda i: len(embedded.words[i]))
        word = embedded.words[position] if same_word else None
        asked.append((embedded.layers[:, position].copy(), word))

    def run() -> None:
        for vectors, word in asked:
            index.neighbors_of(vectors, word)

    job.repeat(run, len(asked))


def index_senses(job: Job) -> None:
    index, _ = _index(job)
    words = [word for word in ("bank", "bat", "spring", "light", "club", "match") if word in index]
    assert words
    job.repeat(lambda: [index.senses(word) for word in words], len(words))


# Start --------------------------------------------------------------------------------------------


def start(job: Job, *arguments: str) -> None:
    command = [sys.executable, "-P", *arguments]
    job.repeat(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured, and in which unit it is shown: words/s, ms or µs."""

    title: str
    unit: str
    run: Callable[[Job], None]
    kernel: bool = True
    """False: on a copy of the tree without the compiled kernel."""


CASES = {
    "embed": Case("embed, small-en, float32", "words/s", embedding),
    "embed-int8": Case("embed, small-en, int8", "words/s", partial(embedding, precision="int8")),
    "embed-torch": Case("embed, small-en, PyTorch alone", "words/s", embedding, kernel=False),
    "embed-wide": Case("embed, biLM 2×1024/128", "words/s", partial(embedding, wide=True)),
    "elmo": Case("Elmo module, frozen, forward", "words/s", elmo_module),
    "pretrain-lstm": Case("pretrain, LSTM 2×512/128", "words/s", partial(pretraining, recipe=LSTM)),
    "pretrain-transformer": Case(
        "pretrain, Transformer 2×128/512", "words/s", partial(pretraining, recipe=SMALL_TRANSFORMER)
    ),
    "task": Case("NER epoch, encoder none", "ms", partial(task, encoder="none")),
    "task-bilm": Case("NER epoch, encoder small-en", "ms", partial(task, encoder=MODEL)),
    "store-random": Case("store, a random read", "µs", partial(store_read, in_order=False)),
    "store-order": Case("store, a read in order", "µs", partial(store_read, in_order=True)),
    "store-fill": Case("store, fill", "words/s", store_fill),
    "store-add": Case("store, add ready vectors", "words/s", store_add),
    "index-build": Case("index, build", "words/s", index_build),
    "index-word": Case(
        "index, neighbors in a word", "µs", partial(index_neighbors, same_word=True)
    ),
    "index-all": Case(
        "index, neighbors, all words", "µs", partial(index_neighbors, same_word=False)
    ),
    "index-senses": Case("index, senses of a word", "ms", index_senses),
    "dump": Case("elmore embed to HDF5", "words/s", dump),
    "help": Case("elmore --help", "ms", lambda job: start(job, "-m", "elmore", "--help")),
    "import": Case(
        "import elmore; elmore.Embedder",
        "ms",
        lambda job: start(job, "-c", "import elmore; elmore.Embedder"),
    ),
}


def main(name: str, tree: str, shared: str, own: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever is printed on the way must not mix with the answers
    import elmore

    assert str(elmore.__file__).startswith(tree + os.sep), elmore.__file__
    CASES[name].run(Job(Path(shared), Path(own), Turns(answers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
