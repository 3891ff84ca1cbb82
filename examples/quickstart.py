"""The main job in half a minute, no download: write a little corpus, pretrain a tiny biLM on it,
embed new sentences, and see that "bank" is one vector without context and several with it.

    python examples/quickstart.py
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
from tiny import tiny

from elmore import Embedder
from elmore.pretrain.run import pretrain

PEOPLE = "my sister|the old man|her neighbour|she|a young woman|the farmer|he|my uncle".split("|")
WHEN = "|yesterday|in the morning|last week|on the day after".split("|")
MONEY = (
    "{} opened an account at the bank",
    "the bank lent money to {}",
    "{} paid the cheque into the bank",
    "the bank raised the interest on the loan of {}",
    "{} asked the bank for a loan",
    "{} counted the money in the bank",
    "a clerk at the bank gave {} the money",
)
RIVER = (
    "{} sat on the grassy bank of the river",
    "the boat of {} drifted to the bank",
    "{} fished from the muddy bank",
    "the river flooded the bank where {} fished",
    "{} swam across to the far bank",
    "reeds grew along the bank where {} rested",
)
NEW = [
    "the bank gave my uncle a loan",
    "the bank lent the farmer money",
    "the old man fished from the far bank",
    "a young woman sat on the muddy bank",
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        parts = itertools.product(MONEY + RIVER, PEOPLE, WHEN)
        lines = [f"{text.format(who)} {when}".strip() for text, who, when in parts]
        corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = pretrain([corpus], Path(folder) / "run", tiny(), valid=corpus)
        print(f"pretrained on {len(lines)} sentences in {done.seconds:.0f} s", end="")
        print(f", perplexity {done.best:.1f}\n")
        show(Embedder.load(Path(folder) / "run"))


def show(elmo: Embedder) -> None:
    """How alike the uses of "bank" are: one vector without context, several with it."""
    embedded = elmo.embed([text.split() for text in NEW])
    uses = np.stack([e.layers[:, e.words.index("bank")] for e in embedded], axis=1)  # (L, 4, D)
    print(f"{len(NEW)} sentences, {elmo.n_layers} layers, {elmo.dim} numbers a word and layer")
    for layer, vectors in enumerate(uses):
        print(f"\nlayer {layer}: cosine of each use of 'bank' to the others")
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for text, row in zip(NEW, unit @ unit.T, strict=True):
            print(f"  {text:40}" + "".join(f"{cosine:7.2f}" for cosine in row))
    alone = elmo.embed([NEW[0].split()])[0].layers
    apart = np.abs(alone - embedded[0].layers).max()
    print(f"\nthe same sentence embedded alone: its vectors differ by {apart:.0e}")


if __name__ == "__main__":
    main()
