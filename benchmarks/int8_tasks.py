"""What int8 costs a task: a model trained on float32 vectors of a biLM is scored on one test set
with float32 and with int8 ones, nothing else changed. Adds a line to results/int8_tasks.json.

    python benchmarks/int8_tasks.py ner --model small-en --train F --dev F --test F [--static GLOVE]
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch

from elmore.embedder import Embedder
from elmore.tasks.encoders.layer_sources import FrozenLayers, LayersInMemory
from elmore.tasks.fit import fit
from elmore.tasks.recipes import find_task

HERE = Path(__file__).resolve().parent


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    config = find_task(options.name)
    source = options.model if options.static is None else f"glove:{options.static}+{options.model}"
    encoder = config.encoder.model_copy(update={"source": source})
    config = config.model_copy(
        update={"encoder": encoder, "epochs": options.epochs, "seed": options.seed}
    )
    train = config.task.read(options.train, training=True)
    dev, test = config.task.read(options.dev), config.task.read(options.test)
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit(config, train.examples, dev.examples, Path(folder) / "task")
    exact = fitted.model.evaluate(test.examples).main
    for source in fitted.model.encoder.sources:
        if isinstance(source, FrozenLayers):
            source.kept = LayersInMemory(Embedder.load(options.model, precision="int8"))
    rounded = fitted.model.evaluate(test.examples).main
    found = {"task": options.name, "seed": options.seed, "float32": exact, "int8": rounded}
    print(json.dumps(found))
    results = HERE / "results" / "int8_tasks.json"
    before = json.loads(results.read_text()) if results.exists() else []
    results.write_text(json.dumps([*before, found], indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--model", required=True)
    parser.add_argument("--static", type=Path)
    for name in ("train", "dev", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
