"""What the demo's sentences give away to programs that understand nothing, beside what a bag of
static vectors finds in them: the floor and a landmark for the figures of `elmore demo`.

    python benchmarks/demo.py [--vectors glove.6B.50d.txt] [--model SOURCE]
"""

# n uses of one word, D vector dim
import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from elmore.demo.accuracy import sense_accuracy, total, word_accuracies
from elmore.demo.ambiguous_words import LANGUAGES, Language, read_uses
from elmore.demo.embedded_uses import embed_uses
from elmore.embedder import Embedder
from elmore.models.static import StaticVectors
from elmore.uses.use import Use

Likeness = Callable[[Use, Use], float]


def main() -> None:
    parser = argparse.ArgumentParser(description="What the demo's sentences give away.")
    parser.add_argument("--vectors", type=Path, help="static vectors of English: text, .bin, .npz")
    parser.add_argument("--model", help="any model elmore reads, for English")
    given = parser.parse_args()
    for language in LANGUAGES:
        for name, likeness in LIKENESSES.items():
            show(language, name, mean_share(language, likeness))
    if given.vectors:
        show("en", given.vectors.name, bag_accuracy(StaticVectors.load(given.vectors)))
    if given.model:
        vectors = embed_uses(Embedder.load(given.model), read_uses("en"))
        found = total(word_accuracies(vectors))
        shares = (found.static, found.sentence, *found.layers, found.average)
        layers = (f"layer {i}" for i, _ in enumerate(found.layers, vectors.first_contextual))
        for name, share in zip(("static", "sentence", *layers, "average"), shares, strict=True):
            show("en", f"{given.model}, {name}", share)


def show(language: str, name: str, share: float) -> None:
    print(f"{language}  {100 * share:5.1f}  {name}")


def same_place(a: Use, b: Use) -> float:
    return -abs(a.position / len(a.words) - b.position / len(b.words))


def same_length(a: Use, b: Use) -> float:
    return -abs(len(a.words) - len(b.words))


def same_sides(a: Use, b: Use) -> float:
    """How many of the two words beside it are the same."""
    return float(len(_sides(a) & _sides(b)))


def same_words(a: Use, b: Use) -> float:
    one, two = set(a.words), set(b.words)
    return len(one & two) / len(one | two)


def _sides(use: Use) -> set[tuple[int, str]]:
    padded = ("", *use.words, "")
    return {(side, padded[use.position + 1 + side]) for side in (-1, 1)}


LIKENESSES: dict[str, Likeness] = {
    "chance": lambda a, b: 0.0,
    "the word's place in the sentence": same_place,
    "the sentence's length": same_length,
    "the words on either side": same_sides,
    "words in common": same_words,
}


def by_word(language: Language) -> list[list[Use]]:
    groups: dict[str, list[Use]] = {}
    for use in read_uses(language):
        groups.setdefault(use.word, []).append(use)
    return list(groups.values())


def mean_share(language: Language, likeness: Likeness) -> float:
    """Over all uses of a language: the nearest has the same sense; ties share."""
    shares = [share for uses in by_word(language) for share in _shares(uses, likeness)]
    return float(np.mean(shares))


def _shares(uses: list[Use], likeness: Likeness) -> list[float]:
    shares = []
    for use in uses:
        near = [(likeness(use, other), other.sense) for other in uses if other is not use]
        best = [sense for value, sense in near if value == max(near)[0]]
        shares.append(best.count(use.sense) / len(best))
    return shares


def bag_accuracy(vectors: StaticVectors) -> float:
    """The mean vector of the sentence's other words."""
    shares = []
    for uses in by_word("en"):
        bags = np.stack([_bag(vectors, use) for use in uses])  # (n, D)
        shares += [sense_accuracy(bags, [use.sense for use in uses])] * len(uses)
    return float(np.mean(shares))


def _bag(vectors: StaticVectors, use: Use) -> np.ndarray:
    others = [word for i, word in enumerate(use.words) if i != use.position]
    rows = [row for word in others if (row := vectors.row(word)) is not None]
    return np.asarray(vectors.vectors[rows].mean(axis=0), dtype=np.float32)


if __name__ == "__main__":
    main()
