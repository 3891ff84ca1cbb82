"""Documents small enough to learn in a second: who `she` and `he` are, and what is a mention."""

import numpy as np

from elmore.tasks.coreference import Coreference
from elmore.tasks.readers.coref import Document

NAMES = {"she": ["Anna", "Clara", "Eva"], "he": ["Bob", "David", "Frank"]}
TINY = Coreference(
    hidden=10, dropout=0.0, score_hidden=12, score_dropout=0.0, features=4, pair_dim=8,
    max_width=3, ratio=0.5, antecedents=8,
)  # fmt: skip


def document(seed: int, n_people: int = 2) -> Document:
    """`Anna slept . the old dog barked . she woke .`: a cluster each, and dogs of their own."""
    rng = np.random.default_rng(seed)
    sentences: list[tuple[str, ...]] = []
    clusters: list[list[tuple[int, int]]] = []
    n = 0
    for pronoun in rng.permutation(["she", "he"])[:n_people].tolist():
        name = str(rng.choice(NAMES[pronoun]))
        dog = ("the", "old", "dog")[int(rng.integers(2)) :]
        parts: list[tuple[str, ...]] = [(name, "slept", "."), (*dog, "barked", "at", pronoun, ".")]
        clusters.append([(n, n), (n + 3 + len(dog) + 2, n + 3 + len(dog) + 2)])
        clusters.append([(n + 3, n + 2 + len(dog))])
        sentences += parts
        n += sum(map(len, parts))
    return Document(f"({seed}); part 000", tuple(sentences), tuple(map(tuple, clusters)))


def columns(document: Document) -> str:
    """As CoNLL-2012 writes it."""
    marks: dict[int, list[str]] = {}
    for number, cluster in enumerate(document.clusters):
        for first, last in cluster:
            if first == last:
                marks.setdefault(first, []).append(f"({number})")
            else:
                marks.setdefault(first, []).append(f"({number}")
                marks.setdefault(last, []).append(f"{number})")
    lines, at = [f"#begin document {document.name}"], 0
    for sentence in document.sentences:
        for i, word in enumerate(sentence):
            lines.append(f"x\t0\t{i}\t{word}\t{'|'.join(marks.get(at, ['-']))}")
            at += 1
        lines.append("")
    return "\n".join([*lines, "#end document\n"])
