"""What a lens does to a model: senses of the demo's words and of CoarseWSD-20, which it is
for, and parts of speech, which it is not.

    python benchmarks/lens.py --model small-en --cache lens.cache \
        --coarse coarsewsd20_train.jsonl coarsewsd20_test.jsonl \
        --treebank en_ewt-ud-dev.conllu en_ewt-ud-test.conllu

CoarseWSD-20: at most 150 examples of each word from either file, drawn with a fixed seed; a test
example gets the sense of the nearest training example of its word, by cosine after their mean has
been subtracted; the mean accuracy of the words. Parts of speech: the probe of `elmore task evaluate
probes`, trained on the first treebank and tested on the second.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmore.demo.accuracy import sense_accuracy
from elmore.demo.ambiguous_words import read_uses
from elmore.embedder import Embedder, LayerSource, lens_of
from elmore.embedding import Vectors
from elmore.files.text_file import read_lines
from elmore.store.cached import CachedEmbedder
from elmore.tasks.encoders.layer_sources import LayersInStore
from elmore.tasks.probes import probe_pos
from elmore.tasks.readers.columns import read_conllu
from elmore.uses.geometry import unit
from elmore.uses.use import Use
from elmore.uses.use_vectors import use_vectors, view, views

EXAMPLES = 150


def main() -> None:
    parser = argparse.ArgumentParser(description="What a lens does to a model's vectors.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--pieces", choices=("first", "mean"))
    parser.add_argument("--cache", type=Path, help="keep the vectors here")
    parser.add_argument("--coarse", type=Path, nargs=2)
    parser.add_argument("--treebank", type=Path, nargs=2)
    given = parser.parse_args()
    embedder = Embedder.load(given.model, pieces=given.pieces)
    source: LayerSource = embedder
    if given.cache is not None:
        source = CachedEmbedder(embedder, LayersInStore.cached(embedder, given.cache).store)
    uses = read_uses("en")
    rows = {"demo": {n: demo_accuracy(found, uses) for n, found in each_view(source, uses)}}
    if given.coarse:
        known, asked = (read_coarse(path) for path in given.coarse)
        found = each_view(source, [*known, *asked])
        rows["CoarseWSD-20"] = {n: coarse_accuracy(some, known, asked) for n, some in found}
    if given.treebank:
        train, test = (list(read_conllu(path)) for path in given.treebank)
        rows["POS"] = probe_pos(source, train, test).accuracy
    names = next(iter(rows.values()))
    print("| |", " | ".join(names), "|")
    print("|---|", " | ".join("---:" for _ in names), "|", sep="")
    for row, shares in rows.items():
        print(f"| {row} |", " | ".join(f"{shares[name]:.1f}" for name in names), "|")


def each_view(source: LayerSource, uses: list[Use]) -> Iterator[tuple[str, Vectors]]:
    """Each layer, their mean and the lens, of all uses."""
    kept, lens = use_vectors(source, uses), lens_of(source)
    for name in views(source.n_layers, lens):
        yield name, view(kept, name, lens=lens)


def demo_accuracy(vectors: Vectors, uses: list[Use]) -> float:
    rows: dict[str, list[int]] = {}
    for row, use in enumerate(uses):
        rows.setdefault(use.word, []).append(row)
    right = [
        len(own) * sense_accuracy(vectors[own], [uses[row].sense for row in own])
        for own in rows.values()
    ]
    return 100 * sum(right) / len(uses)


def read_coarse(path: Path) -> list[Use]:
    """At most 150 of each word; `sense` is the label."""
    examples: dict[str, list[Use]] = {}
    for line in read_lines(path):
        found = json.loads(line)
        use = Use(tuple(found["tokens"]), found["index"], sense=found["sense"])
        examples.setdefault(found["word"], []).append(use)
    for uses in examples.values():
        random.Random(0).shuffle(uses)
    return [use for _, uses in sorted(examples.items()) for use in uses[:EXAMPLES]]


def coarse_accuracy(vectors: Vectors, known: list[Use], asked: list[Use]) -> float:
    """A sense belongs to one word, whose inflected forms are uses of it too."""
    word = np.array([use.sense.split("_")[0] for use in (*known, *asked)])
    sense = np.array([use.sense for use in (*known, *asked)])
    first = np.arange(len(word)) < len(known)
    shares = []
    for name in np.unique(word):
        near, far = (word == name) & first, (word == name) & ~first
        mean = vectors[near].mean(axis=0)
        cosines = unit(vectors[far] - mean) @ unit(vectors[near] - mean).T  # (asked, known)
        shares.append((sense[near][cosines.argmax(axis=1)] == sense[far]).mean())
    return 100 * float(np.mean(shares))


if __name__ == "__main__":
    main()
