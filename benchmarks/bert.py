"""BERT's embedding speed: elmore's precisions, transformers and onnxruntime on the same sentences
and the same random weights of base size, all layers returned, turns taken one after the other in
one run. Writes results/bert.json and results/bert.md; --write-docs copies the table into
docs/performance.md. A peer that is not installed is left out, and the table says so.

    pip install transformers onnx onnxscript onnxruntime
    python benchmarks/bert.py --text FILE --vocabulary vocab.txt      # one sentence a line
    python benchmarks/bert.py --text FILE --model FOLDER --compared 300      # trained weights
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from bert_child import PRECISIONS
from embed import Child, _difference, _slice, latencies, throughput, write_docs
from embed_child import Job

from elmore.checkpoint.bert import bert_checkpoint, write_bert_files
from elmore.embedder import Embedder
from elmore.files.text_file import read_lines
from elmore.models.bert import Bert, BertConfig
from elmore.text.wordpiece import WordPiece, WordPieceConfig
from train import machine

HERE = Path(__file__).resolve().parent
MARKS = ("<!-- bert: begin -->", "<!-- bert: end -->")
SORTED = {"sorted": True}
# Name of a row: (side, options of its turns).
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformers, input order": ("transformers", {}),
    "transformers, sorted by length": ("transformers", SORTED),
    "transformers, sorted, bf16 autocast": ("transformers", {**SORTED, "bf16": True}),
    "onnxruntime float32, sorted": ("onnx", SORTED),
    "onnxruntime int8 dynamic, sorted": ("onnx-int8", SORTED),
    "elmore float32": ("float32", {}),
    "elmore bfloat16": ("bfloat16", {}),
    "elmore int8": ("int8", {}),
}
# Rows that each of elmore's is compared with.
PEERS = {
    "elmore float32": (
        "transformers, input order", "transformers, sorted by length",
        "onnxruntime float32, sorted",
    ),
    "elmore bfloat16": ("transformers, sorted, bf16 autocast",),
    "elmore int8": ("elmore float32", "onnxruntime int8 dynamic, sorted"),
}  # fmt: skip
NEEDS = {"transformers": "transformers", "onnx": "onnxruntime", "onnx-int8": "onnxruntime"}


def main() -> None:
    options = parse()
    missing = sorted({need for need in NEEDS.values() if find_spec(need) is None})
    sides = [side for side in (*NEEDS, *PRECISIONS) if NEEDS.get(side) not in missing]
    rows = {name: row for name, row in ROWS.items() if row[0] in sides}
    rows = {name: row for name, row in rows.items() if name not in options.without}
    sides = [side for side in sides if side in {side for side, _ in rows.values()}]
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        sentences = read_sentences(options.text, options.sentences)
        (folder / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
        model = folder / "model"
        if options.model:
            shutil.copytree(options.model, model)
        else:
            model.mkdir()
            write_model(model, options.vocabulary, options.layers)
        if any(side.startswith("onnx") for side in sides):
            export(model)
        path = str(folder / "sentences.json")
        jobs = {side: Job(side, str(model), path, options.threads) for side in sides}
        children = {side: Child(job, sys.executable, "bert_child.py") for side, job in jobs.items()}
        try:
            result = {
                "machine": machine(options),
                "missing": missing,
                **work(model, sentences),
                **measure(children, rows, sentences, folder, options),
            }
        finally:
            for child in children.values():
                child.close()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "bert.json").write_text(json.dumps(result, indent=2) + "\n")
    page = table(result)
    (options.output / "bert.md").write_text("# BERT's speed\n\n" + page, encoding="utf-8")
    if options.write_docs:
        write_docs(page, MARKS)
    print(page)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--vocabulary", type=Path, help="a vocab.txt, uncased, for random weights")
    what.add_argument("--model", type=Path, help="a folder that transformers opens")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--layers", type=int, default=12, help="12 is base size")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--compared", type=int, default=32, help="sentences compared by vectors")
    parser.add_argument("--latencies", type=int, default=9, help="single sentences timed")
    parser.add_argument("--without", nargs="*", default=[], help="rows to leave out, by name")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--scratch", type=Path, default=None, help="2 GB for the models")
    parser.add_argument("--write-docs", action="store_true")
    return parser.parse_args()


def read_sentences(text: Path, n: int) -> list[list[str]]:
    lines = (line.split() for line in read_lines(text))
    found = list(islice((line for line in lines if len(line) > 1), n))
    if len(found) < n:
        raise SystemExit(f"{text} has {len(found):,} sentences; {n:,} are asked for.")
    return found


def write_model(folder: Path, vocabulary: Path, n_layers: int) -> None:
    """Random weights of base size, as a folder that transformers opens too."""
    pieces = vocabulary.read_text(encoding="utf-8").rstrip("\n").split("\n")
    torch.manual_seed(0)
    model = Bert(BertConfig(n_pieces=len(pieces), n_layers=n_layers)).requires_grad_(False).eval()
    wordpiece = WordPiece(pieces, WordPieceConfig(lowercase=True))
    write_bert_files(bert_checkpoint(model, wordpiece), folder)


def export(folder: Path) -> None:
    """With all hidden states as outputs; attention and norms fused by onnxruntime's own tool."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertModel

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(
                folder, add_pooling_layer=False, attn_implementation="eager"
            ).eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
            return self.bert(
                input_ids=ids, attention_mask=mask, output_hidden_states=True
            ).hidden_states

    model, names = States(), ["input_ids", "attention_mask"]
    ids = torch.arange(14).view(2, 7)
    torch.onnx.export(
        model,
        (ids, torch.ones_like(ids)),
        folder / "plain.onnx",
        input_names=names,
        output_names=[f"layer_{i}" for i in range(model.bert.config.num_hidden_layers + 1)],
        dynamic_axes={name: {0: "rows", 1: "pieces"} for name in names},
        dynamo=False,
    )
    config = model.bert.config
    fused = optimize_model(
        str(folder / "plain.onnx"),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
    )
    print(f"fused by onnxruntime: {fused.get_fused_operator_statistics()}", file=sys.stderr)
    fused.save_model_to_file(str(folder / "onnx.onnx"))
    quantize_dynamic(
        folder / "onnx.onnx", folder / "onnx-int8.onnx", weight_type=QuantType.QInt8,
        per_channel=True, extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )  # fmt: skip


def work(model: Path, sentences: list[list[str]]) -> dict[str, Any]:
    """How many pieces there are, and what a word costs in products of float32 numbers."""
    bert = Embedder.load(model, device="cpu")
    lengths = np.array([bert.reader.length(sentence) for sentence in sentences])
    n_words, dim = sum(map(len, sentences)), bert.dim
    flop = (bert.n_layers - 1) * (24 * dim**2 * lengths.sum() + 4 * dim * (lengths**2).sum())
    return {
        "sentences": len(sentences),
        "words": n_words,
        "pieces": int(lengths.sum()),
        "mflop_a_word": float(flop / n_words / 1e6),
    }


def measure(
    children: dict[str, Child],
    rows: dict[str, tuple[str, dict[str, Any]]],
    sentences: list[list[str]],
    folder: Path,
    options: argparse.Namespace,
) -> dict[str, Any]:
    found = {
        "engine": children["float32"].began["engine"],
        "gflops": max(child.began.get("gflops", 0.0) for child in children.values()),
        "load_seconds": {side: child.began["load_seconds"] for side, child in children.items()},
        "agreement": agreement(children, folder, options.compared),
        "latency": latencies(children, sentences, options.latencies),
        **throughput(children, rows, len(sentences), options.rounds),
    }
    found["peak"] = {side: child.turn(**_slice(0, 1))["peak"] for side, child in children.items()}
    return found


def agreement(children: dict[str, Child], folder: Path, n: int) -> dict[str, dict[str, float]]:
    """Largest difference and smallest cosine to transformers, over all layers of n sentences."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for side, child in children.items():
        target = folder / f"{side}.npz"
        child.turn(**_slice(0, n, keep=True), save=str(target))
        with np.load(target) as arrays:
            found[side] = np.concatenate([arrays[name] for name in arrays.files], axis=1)
    truth = found.pop("transformers", None)
    if truth is None:
        return {}
    return {side: _difference(ours, truth) for side, ours in found.items()}


def table(result: dict[str, Any]) -> str:
    speeds = {name: median(every) for name, every in result["words_per_second"].items()}
    about = result["machine"]
    lines = [
        (
            f"{about['cpu']}, {about['threads']} threads, torch {about['torch']}; engine: "
            f"{result['engine']}. {result['sentences']:,} sentences, {result['words']:,} words, "
            f"{result['pieces']:,} pieces with their marks."
        ),
        "",
        (
            "| | words/s, median (range) | 20 words alone | load | peak memory | against "
            "transformers float32: largest difference, worst cosine |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for name, speed in speeds.items():
        side, every = ROWS[name][0], result["words_per_second"][name]
        far = result["agreement"].get(side)
        apart = "–" if far is None else f"{far['largest']:.1e}, {far['cosine']:.5f}"
        lines.append(
            f"| {name} | {speed:,.0f} ({min(every):,.0f}–{max(every):,.0f}) | "
            f"{1000 * median(result['latency'][side]):,.0f} ms | "
            f"{result['load_seconds'][side]:.1f} s | {result['peak'][side] / 1e9:.2f} GB | "
            f"{apart} |"
        )
    limit = 1000 * result["gflops"] / result["mflop_a_word"]
    lines += [
        "",
        (
            f"Roofline in the same run: {result['gflops']:,.0f} GFLOP/s of float32 products, "
            f"{result['mflop_a_word']:.0f} MFLOP a word, so {limit:,.0f} words/s in float32."
        ),
        "",
        "| | times as fast as | median (range over rounds) |",
        "|---|---|---|",
    ]
    for ours, peers in PEERS.items():
        lines += [_ratio(result, ours, peer) for peer in peers if {ours, peer} <= speeds.keys()]
    if result["missing"]:
        lines += ["", f"Not installed, so not measured: {', '.join(result['missing'])}."]
    return "\n".join(lines) + "\n"


def _ratio(result: dict[str, Any], ours: str, peer: str) -> str:
    speeds = result["words_per_second"]
    ratios = [a / b for a, b in zip(speeds[ours], speeds[peer], strict=True)]
    return f"| {ours} | {peer} | {median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |"


if __name__ == "__main__":
    main()
