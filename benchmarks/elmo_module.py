"""`Elmo` inside a model: a frozen biLM, which runs by the engine, beside the same biLM by PyTorch's
own forward, which is what a fine-tuned one takes.

    python benchmarks/elmo_module.py --text FILE [--model small-en] [--threads 1]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from statistics import median

import torch

from elmore import Elmo
from elmore.files.text_file import read_lines


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def read_all(elmo: Elmo, batches: list[list[list[str]]]) -> None:
    with torch.no_grad():
        for batch in batches:
            elmo(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="words between spaces, a sentence a line")
    parser.add_argument("--model", default="small-en")
    parser.add_argument("--sentences", type=int, default=640)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lines = filter(None, (line.split() for line in read_lines(args.text)))
    sentences = list(islice(lines, args.sentences))
    batches = [sentences[i : i + args.batch] for i in range(0, len(sentences), args.batch)]
    n_words = sum(map(len, sentences))
    ways = {
        "frozen": Elmo.load(args.model).eval(),
        "PyTorch's forward": Elmo.load(args.model, fine_tune=True).eval(),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, elmo in ways.items():
            took[name].append(seconds(partial(read_all, elmo, batches)))
    for name, found in took.items():
        rates = sorted(n_words / second for second in found)
        print(f"{name}: {median(rates):,.0f} words/s ({rates[0]:,.0f}–{rates[-1]:,.0f})")


if __name__ == "__main__":
    main()
