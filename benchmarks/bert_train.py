"""A step of BERT's pretraining beside transformers' BertForPreTraining in a plain PyTorch loop with
AdamW: the same batches, weights and rates, no dropout, turns taken one after the other in one run.
Writes results/bert_train.json and results/bert_train.md; --write-docs copies the table into
docs/performance.md.

    python benchmarks/bert_train.py --text FILE       # a sentence a line, blank lines between texts
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import torch
from bert_train_child import SIDES
from embed import Child, write_docs
from embed_child import Job

from elmore.checkpoint.bert import bert_checkpoint, write_bert_files
from elmore.checkpoint.wordpiece import read_wordpiece
from elmore.models.bert import MASKED, NEXT, Bert, MaskedHead, next_head
from elmore.pretrain.config import Asked, MaskedConfig
from elmore.pretrain.objectives.masked import TOKENIZER, prepare
from elmore.pretrain.recipes import RECIPES
from elmore.pretrain.sentences import count_words
from train import machine

HERE = Path(__file__).resolve().parent
MARKS = ("<!-- bert training: begin -->", "<!-- bert training: end -->")


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, options)
        job = {side: Job(side, str(folder), "", options.threads) for side in SIDES}
        children = {side: Child(job[side], sys.executable, "bert_train_child.py") for side in SIDES}
        try:
            result = measure(children, options)
        finally:
            for child in children.values():
                child.close()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "bert_train.json").write_text(json.dumps(result, indent=2) + "\n")
    page = table(result)
    text = "# A step of BERT's pretraining\n\n" + page
    (options.output / "bert_train.md").write_text(text, encoding="utf-8")
    if options.write_docs:
        write_docs(page, MARKS)
    print(page)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--recipe", default="bert-laptop", choices=[*RECIPES])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="in a turn")
    parser.add_argument("--batches", type=int, default=20, help="different ones")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--write-docs", action="store_true")
    return parser.parse_args()


def make(folder: Path, options: argparse.Namespace) -> None:
    """The text as pieces, and weights to begin with, as a folder that both sides open."""
    recipe = RECIPES[options.recipe]()
    if not isinstance(recipe, MaskedConfig):
        raise SystemExit(f"{options.recipe} is no BERT.")
    still = recipe.model.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})
    config = recipe.model_copy(update={"model": still, "valid_rows": options.batches * recipe.rows})
    asked = Asked([options.text], folder, config, valid=None, vocabulary=None, source=None)
    counts = count_words([options.text], config.reading, None)
    config, _ = prepare(asked, [options.text], counts, None)
    (folder / "config.json").write_text(config.model_dump_json())
    torch.manual_seed(0)
    model = Bert(config.model)
    heads: dict[str, torch.nn.Module] = {
        MASKED: MaskedHead(config.model), NEXT: next_head(config.model)
    }  # fmt: skip
    wordpiece, _ = read_wordpiece(folder / TOKENIZER, config.model.n_pieces)
    (folder / "start").mkdir()
    write_bert_files(bert_checkpoint(model, wordpiece, heads=heads), folder / "start")


def measure(children: dict[str, Child], options: argparse.Namespace) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {side: [] for side in children}
    cpu: dict[str, list[float]] = {side: [] for side in children}
    losses: dict[str, list[float]] = {side: [] for side in children}
    peaks = dict.fromkeys(children, 0)
    for child in children.values():
        child.turn(steps=2)  # warm up
    for number in range(options.rounds):
        for side, child in children.items():
            took = child.turn(steps=options.steps)
            seconds[side].append(took["seconds"] / options.steps)
            cpu[side].append(took["cpu_seconds"] / options.steps)
            losses[side] += took["losses"]
            peaks[side] = took["peak"]
            print(f"round {number + 1}: {side} {seconds[side][-1]:.3f} s a step", file=sys.stderr)
    apart = {
        side: max(abs(a - b) for a, b in zip(losses[side], losses[SIDES[0]], strict=True))
        for side in children
    }
    return {
        "machine": machine(options),
        "recipe": options.recipe,
        "pieces": children[SIDES[0]].began["pieces"],
        "seconds": seconds,
        "cpu_seconds": cpu,
        "losses": losses,
        "apart": apart,
        "peak": peaks,
    }


def table(result: dict[str, Any]) -> str:
    about, every = result["machine"], result["seconds"]
    n = len(next(iter(result["losses"].values())))
    lines = [
        (
            f"{about['cpu']}, {about['threads']} threads, torch {about['torch']}; "
            f"{result['recipe']}, {result['pieces']:,} pieces a step."
        ),
        "",
        (
            "| | seconds a step, median (range) | elmore is times as fast | largest difference of "
            f"a loss in {n} steps | peak memory |"
        ),
        "|---|---|---|---|---|",
    ]
    for side, seconds in every.items():
        ratios = [theirs / ours for theirs, ours in zip(seconds, every[SIDES[0]], strict=True)]
        ratio = f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        lines.append(
            f"| {side} | {median(seconds):.3f} ({min(seconds):.3f}–{max(seconds):.3f}) | "
            f"{'–' if side == SIDES[0] else ratio} | {result['apart'][side]:.1e} | "
            f"{result['peak'][side] / 1e9:.2f} GB |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
