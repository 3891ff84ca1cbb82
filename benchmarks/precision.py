"""Training in bfloat16 beside float32: words/s in turns of some steps, taken one after the other in
one process, and with --steps the validation perplexity of both after equally many. Writes
results/precision.json and results/precision.md; --write-docs copies the table into
docs/performance.md.

    python benchmarks/precision.py --text FILE --valid FILE     # a sentence a line
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from embed import write_docs

from elmore.pretrain.config import AnyConfig
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import Kind, keep_large_blocks, kind_of, pretrain, read_run
from elmore.train.loop import Loop
from elmore.train.precision import Rounding, bfloat16_speedup
from elmore.train.world import World
from train import machine

HERE = Path(__file__).resolve().parent
MARKS = ("<!-- precision: begin -->", "<!-- precision: end -->")
RECIPES = {
    "small-en": f"{HERE.parent / 'runs/small_en.py'}:small_en",
    "elmo-laptop": "elmo-laptop",
    "elmo-small": "elmo-small",
    "elmo-transformer": "elmo-transformer",
    "bert-laptop": "bert-laptop",
    "causal-laptop": "causal-laptop",
    "gpt-laptop": "gpt-laptop",
}
PRECISIONS: tuple[Rounding, Rounding] = ("float32", "bfloat16")


class NoRecords:
    """Nothing is written."""

    def start(self, step: int) -> None: ...
    def report(self, progress: Any, figures: dict[str, float]) -> None: ...
    def validated(self, progress: Any, figures: dict[str, float]) -> None: ...
    def save(self, loop: Loop, states: list[Any]) -> None: ...
    def resume(self, loop: Loop) -> Any: ...
    def close(self) -> None: ...
    def diverged(self, step: int) -> str:
        return f"The loss of step {step} is not a number."


def main() -> None:
    options = parse()
    keep_large_blocks()
    found: dict[str, dict[str, Any]] = {}
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name in options.cases:
            with tempfile.TemporaryDirectory() as scratch:
                found[f"{name}, {threads}"] = measure(name, Path(scratch), options)
            write(found, options)
    if options.write_docs:
        write_docs(table(found) + "\n", MARKS)


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    config = prepared(name, folder, options)
    loops = {p: loop_of(config, folder, p) for p in PRECISIONS}
    for loop in loops.values():
        speed(loop, config, 2)  # to warm up
    speeds: dict[str, list[float]] = {p: [] for p in PRECISIONS}
    for turn in range(options.rounds):
        for p in PRECISIONS if turn % 2 else reversed(PRECISIONS):
            speeds[p].append(speed(loops[p], config, options.turn))
    result: dict[str, Any] = {"threads": torch.get_num_threads(), "speeds": speeds}
    if options.steps and name == options.cases[0] and torch.get_num_threads() == options.threads[0]:
        del loops
        result["perplexity"] = {p: after(options, config, folder, p) for p in PRECISIONS}
    print(name, result, flush=True)
    return result


def prepared(name: str, folder: Path, options: argparse.Namespace) -> AnyConfig:
    """The recipe, and a folder in which its first step has been made."""
    config = find_recipe(RECIPES[name])
    if not config.reading.as_is:
        reading = config.reading.model_copy(update={"tokenize": True})
        config = config.model_copy(update={"reading": reading})
    loop = config.loop.model_copy(update={"steps": 1, "minutes": None, "checkpoint_minutes": 1e6})
    config = config.model_copy(update={"loop": loop, "epochs": None, "precision": "float32"})
    pretrain([options.text], folder, config)
    return config


def loop_of(
    config: AnyConfig, folder: Path, precision: Rounding, valid: Path | None = None
) -> Loop:
    run, world = read_run(folder), World()
    changed = run.config.model_copy(update={"precision": precision})
    run = run.model_copy(update={"config": changed, "valid": None if valid is None else str(valid)})
    kind: Kind = kind_of(config)
    return Loop(kind.build(run, folder, world, None), run.config.loop, NoRecords(), world)


def speed(loop: Loop, config: AnyConfig, steps: int) -> float:
    """Words/s; a word that both directions predict counts once."""
    words, begin = loop.progress.words, time.perf_counter()
    loop.config = loop.config.model_copy(update={"steps": loop.progress.step + steps})
    loop.run()
    both = 2 if config.kind == "bilm" else 1
    return (loop.progress.words - words) / both / (time.perf_counter() - begin)


def after(
    options: argparse.Namespace, config: AnyConfig, folder: Path, precision: Rounding
) -> float:
    """The first figure of the validation, after some steps."""
    loop = loop_of(config, folder, precision, options.valid)
    loop.config = loop.config.model_copy(update={"steps": options.steps})
    loop.run()
    loop.objective.module.eval()
    return next(iter(loop.objective.validate().values()))


def table(found: dict[str, dict[str, Any]]) -> str:
    about = machine(0)
    story = (
        f"{about['cpu']}, torch {about['torch']}; PyTorch's products alone are "
        f"{bfloat16_speedup():.2f} times as fast in bfloat16 here."
    )
    lines = [
        story,
        "",
        "| recipe | threads | float32, words/s | bfloat16 | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, result in found.items():
        a, b = (median(result["speeds"][p]) for p in PRECISIONS)
        name, threads = name.split(",")[0], result["threads"]
        lines.append(f"| `{name}` | {threads} | {a:,.0f} | {b:,.0f} | **{b / a:.2f}×** |")
    return "\n".join(lines)


def write(found: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    record = {"machine": machine(0), "rounds": options.rounds, "cases": found}
    folder = HERE / "results"
    (folder / "precision.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / "precision.md").write_text(table(found) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--valid", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--cases", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each precision (7)")
    parser.add_argument("--turn", type=int, default=3, help="steps of a turn (3)")
    parser.add_argument("--steps", type=int, default=0, help="for the perplexity of the first case")
    parser.add_argument("--write-docs", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
