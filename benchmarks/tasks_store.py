"""A task's epoch whose vectors are read from a store, beside one that embeds its sentences anew:
the same tagger, the same batches, by turns in one process. Writes results/tasks_store.json.

    python benchmarks/tasks_store.py --text FILE        # a sentence a line, words split by spaces
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.embedder import Embedder
from elmore.files.text_file import read_lines
from elmore.models.bilm import BiLM
from elmore.models.layers import LayerStates
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.recipes import find_recipe
from elmore.store.store import Store
from elmore.tasks.encoded import Input, words_of
from elmore.tasks.encoders.encoder import Encoder, EncoderConfig
from elmore.tasks.encoders.layer_sources import FrozenLayers, KeptLayers, LayersInStore
from elmore.tasks.encoders.source import OwnConfig, OwnVectors
from elmore.tasks.model import TaskModel
from elmore.tasks.objective import training_batches
from elmore.tasks.tagging import Tagged, Tagging
from elmore.tasks.task import Words

HERE = Path(__file__).resolve().parent
BATCH = 32


class LayersAnew(LayersInStore):
    """Asks the model every time."""

    def batch(self, inputs: Sequence[Input]) -> LayerStates:
        assert self.embedder is not None
        found = [embedding.layers for embedding in self.embedder.embed([*map(words_of, inputs)])]
        return LayerStates.padded(found, self.n_layers, self.dim)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--recipes", nargs="+", default=["elmo-small", "elmo-original"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "tasks_store.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = (tuple(line.split()) for line in read_lines(options.text))
    sentences = list(islice(filter(None, lines), options.sentences))
    rows = [measured(name, sentences, options.rounds) for name in options.recipes]
    options.output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print("| biLM | words | vectors anew | from the store | | epoch anew | over the store | |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        print(
            f"| {row['recipe']} | {row['words']:,} | {row['vectors_anew']:.2f} s | "
            f"{row['vectors_store']:.2f} s | {row['vectors_anew'] / row['vectors_store']:.1f}× | "
            f"{row['epoch_anew']:.2f} s | {row['epoch_store']:.2f} s | "
            f"{row['epoch_anew'] / row['epoch_store']:.1f}× |"
        )


def measured(recipe: str, sentences: list[Words], rounds: int) -> dict[str, Any]:
    """Processor seconds, median of the rounds: of the vectors alone, and of a training epoch."""
    torch.manual_seed(0)
    config = find_recipe(recipe)
    assert isinstance(config, PretrainConfig)
    embedder = Embedder(bilm_checkpoint(BiLM(config.model)), device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "a.store", embedder, precision="float16")
        store.fill([list(words) for words in sentences])
        turns: dict[str, list[float]] = {}
        kept = {"store": LayersInStore(store, embedder), "anew": LayersAnew(store, embedder)}
        models = {name: tagger(layers, sentences) for name, layers in kept.items()}
        for model in models.values():
            epoch(model, sentences)  # whatever torch imports and sets up at first use
        for _ in range(rounds):
            for name, layers in kept.items():
                for kind, run in (
                    (
                        "vectors",
                        lambda layers=layers: [layers.batch(b) for b in batches(sentences)],
                    ),
                    ("epoch", lambda name=name: epoch(models[name], sentences)),
                ):
                    turns.setdefault(f"{kind}_{name}", []).append(seconds(run))
    words = sum(len(s) for s in sentences)
    return {
        "recipe": recipe, "words": words, "rounds": rounds,
        **{name: median(times) for name, times in turns.items()},
    }  # fmt: skip


def tagger(kept: KeptLayers, sentences: list[Words]) -> TaskModel:
    """The NER tagger with made-up tags: how long it takes does not depend on them."""
    torch.manual_seed(0)
    config, task = EncoderConfig(), Tagging()
    words = sorted({word for sentence in sentences for word in sentence})
    source = FrozenLayers("biLM", "input", kept, l2=0.0)
    encoder = Encoder(config, [OwnVectors(OwnConfig(), words), source])
    state = task.start([Tagged(("a",) * 4, ("S-PER", "S-LOC", "S-ORG", "S-MISC"))])
    return TaskModel(task, encoder, state)


def epoch(model: TaskModel, sentences: list[Words]) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    model.train()
    for batch in batches(sentences):
        loss = model.loss([Tagged(words, ("O",) * len(words)) for words in batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def batches(sentences: list[Words]) -> list[list[Words]]:
    lengths = [len(words) for words in sentences]
    chosen = training_batches(lengths, BATCH, np.random.default_rng(0))
    return [[sentences[i] for i in batch] for batch in chosen]


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    main()
