"""One side of the BERT benchmark: a process that loads its model once and then takes turns, as in
embed_child.py. elmore's own sides, transformers, and onnxruntime on the exported model.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from embed_child import Job, gemm_gflops, take_turns
from numpy.typing import NDArray

Layers = list[NDArray[np.float32]]
PRECISIONS = ("float32", "bfloat16", "int8")
BATCH = 32  # sentences, padded to the longest of them


def main(job: Job) -> None:
    if job.side in PRECISIONS:
        elmore_side(job)
    elif job.side == "transformers":
        transformers_side(job)
    else:
        onnx_side(job)


def elmore_side(job: Job) -> None:
    import torch

    from elmore.embedder import Embedder
    from elmore.engine.runner import describe

    torch.set_num_threads(job.threads)
    start = time.perf_counter()
    bert = Embedder.load(job.model, device="cpu", precision=job.side)
    bert.embed([["the"]])  # the engine is made at first use: that is part of loading
    seconds = time.perf_counter() - start

    def embed(sentences: list[list[str]], options: dict[str, Any]) -> Layers | None:
        found = [embedding.layers for embedding in bert.stream(sentences)]
        return found if options.get("keep") else None

    about = {"gflops": max(gemm_gflops(), kernel_gflops(job.threads)), "engine": describe()}
    take_turns(embed, job, seconds, about)


def kernel_gflops(threads: int) -> float:
    """float32 products of the compiled kernel, at BERT's largest shape."""
    import torch
    from torch import nn

    from elmore.engine.kernel import Kernel, find_kernel
    from elmore.engine.native_bert import NativeProduct

    kernel, times = find_kernel(), []
    if not isinstance(kernel, Kernel):
        return 0.0
    product = NativeProduct(nn.Linear(768, 3072), kernel, int8=False)
    x = torch.randn(2048, 768)
    for _ in range(5):
        start = time.perf_counter()
        product(x, threads)
        times.append(time.perf_counter() - start)
    return 2 * 2048 * 768 * 3072 / min(times) / 1e9


def batches(sentences: Sequence[list[str]], options: dict[str, Any]) -> Iterator[list[int]]:
    """As they come, or sorted by length."""
    order = list(range(len(sentences)))
    if options.get("sorted"):
        order.sort(key=lambda i: len(sentences[i]))
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]


def first_pieces(encoded: Any, states: Sequence[NDArray[np.float32]], at: int) -> NDArray[Any]:
    """(L + 1, n, D) of the sentence in row `at`, from padded states of every layer."""
    words = encoded.word_ids(at)
    places = [i for i, w in enumerate(words) if w is not None and (i == 0 or words[i - 1] != w)]
    return np.stack([layer[at, places] for layer in states])


def run_batches(
    tokenizer: Any, run: Any, sentences: list[list[str]], options: dict[str, Any]
) -> Layers | None:
    """Every layer of every batch; words are picked out only where they are to be compared."""
    found: dict[int, NDArray[Any]] = {}
    for batch in batches(sentences, options):
        chosen = [sentences[i] for i in batch]
        kind = "np" if options.get("numpy") else "pt"
        encoded = tokenizer(
            chosen, is_split_into_words=True, padding=True, truncation=True, return_tensors=kind
        )
        states = run(encoded, options)
        if options.get("keep"):
            found |= {i: first_pieces(encoded, states, at) for at, i in enumerate(batch)}
    return [found[i] for i in range(len(sentences))] if options.get("keep") else None


def transformers_side(job: Job) -> None:
    import torch
    from transformers import AutoTokenizer, BertModel

    torch.set_num_threads(job.threads)
    start = time.perf_counter()
    model: Any = BertModel.from_pretrained(job.model, add_pooling_layer=False)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(job.model)
    seconds = time.perf_counter() - start

    def run(encoded: Any, options: dict[str, Any]) -> list[NDArray[np.float32]]:
        bf16 = options.get("bf16", False)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            states = model(**encoded, output_hidden_states=True).hidden_states
        return [state.float().numpy() for state in states]

    def embed(sentences: list[list[str]], options: dict[str, Any]) -> Layers | None:
        return run_batches(tokenizer, run, sentences, options)

    take_turns(embed, job, seconds, {})


def onnx_side(job: Job) -> None:
    import onnxruntime
    from transformers import AutoTokenizer

    start = time.perf_counter()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = job.threads
    settings.log_severity_level = 3
    path = Path(job.model) / f"{job.side}.onnx"
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(job.model)
    names = [one.name for one in session.get_inputs()]
    seconds = time.perf_counter() - start

    def run(encoded: Any, options: dict[str, Any]) -> list[NDArray[np.float32]]:
        given = {name: np.asarray(encoded[name], np.int64) for name in names}
        states: list[NDArray[np.float32]] = session.run(None, given)
        return states

    def embed(sentences: list[list[str]], options: dict[str, Any]) -> Layers | None:
        return run_batches(tokenizer, run, sentences, {**options, "numpy": True})

    take_turns(embed, job, seconds, {})


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
