"""One side of the embedding benchmark: a process that loads its model once and then takes turns, a
JSON line in and a JSON line out. This file runs elmore's sides; AllenNLP's has a file of its own.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Embed = Callable[[list[list[str]], dict[str, Any]], list[NDArray[np.float32]] | None]


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is told when it starts."""

    side: str
    model: str
    sentences: str
    threads: int


def take_turns(embed: Embed, job: Job, load_seconds: float, more: dict[str, Any]) -> None:
    """A turn names the sentences it wants: {"from", "to", "options", "save"}."""
    sentences: list[list[str]] = json.loads(Path(job.sentences).read_text(encoding="utf-8"))
    say({"load_seconds": load_seconds, "peak": peak(), **more})
    for line in sys.stdin:
        turn = json.loads(line)
        some = turn.get("sentences") or sentences[turn["from"] : turn["to"]]
        start, cpu = time.perf_counter(), time.process_time()
        layers = embed(some, turn.get("options", {}))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        if turn.get("save") and layers is not None:
            np.savez(turn["save"], *layers)
        words = sum(map(len, some))
        say({"seconds": seconds, "cpu_seconds": cpu, "words": words, "peak": peak()})


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def peak() -> int:
    """Bytes. getrusage counts what the process was before it became another program, too."""
    status = Path("/proc/self/status")
    if status.is_file():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def elmore_side(job: Job) -> None:
    import torch

    from elmore.embedder import Embedder
    from elmore.engine.kernel import NoKernel
    from elmore.engine.runner import describe, runner_for
    from elmore.text.batching import BATCH_WORDS

    torch.set_num_threads(job.threads)
    start = time.perf_counter()
    precision = "int8" if job.side == "int8" else "float32"
    elmo = Embedder.load(job.model, device="cpu", precision=precision)
    if job.side == "torch":
        elmo.runner = runner_for(elmo.model, elmo.reader, kernel=NoKernel("PyTorch is asked for"))
    elmo.embed([["the"]])  # the engine is made at first use: that is part of loading
    seconds = time.perf_counter() - start

    def embed(
        sentences: list[list[str]], options: dict[str, Any]
    ) -> list[NDArray[np.float32]] | None:
        torch.set_num_threads(options.get("threads", job.threads))
        elmo.runner.forget()
        stream = elmo.stream(sentences, batch_words=options.get("batch_words", BATCH_WORDS))
        if options.get("keep"):
            return [embedding.layers for embedding in stream]
        for _ in stream:
            pass
        return None

    take_turns(embed, job, seconds, {"gflops": gemm_gflops(), "engine": describe()})


def gemm_gflops() -> float:
    """float32 products of 2048 × 2048 matrices: what a floating-point second can hold here."""
    import torch

    a = torch.randn(2048, 2048)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(times) / 1e9


if __name__ == "__main__":
    elmore_side(Job(**json.loads(sys.argv[1])))
