"""Examples small enough to train on in a second, as files of every layout."""

import json
import random
from pathlib import Path

NAMES = {"PER": ["Anna Smith", "Bob", "Carla"], "LOC": ["Paris", "New York", "Rome"]}
PATTERNS = ["{PER} went to {LOC} .", "{PER} saw {PER} .", "rain fell on {LOC} .", "it rained ."]
GLOVE_WORDS = (
    "anna smith bob carla paris new york rome went to saw rain fell on . it rained".split()
)


def tagged(n: int, seed: int) -> list[list[tuple[str, str]]]:
    """Sentences of words with their BIO tags."""
    rng = random.Random(seed)
    return [_sentence(rng) for _ in range(n)]


def _sentence(rng: random.Random) -> list[tuple[str, str]]:
    found = []
    for word in rng.choice(PATTERNS).split():
        kind = word.strip("{}")
        if kind not in NAMES:
            found.append((word, "O"))
            continue
        for i, part in enumerate(rng.choice(NAMES[kind]).split()):
            found.append((part, f"{'I' if i else 'B'}-{kind}"))
    return found


def write_columns(folder: Path) -> None:
    """train.txt, dev.txt and test.txt in CoNLL's columns, and glove.txt."""
    for seed, (name, n) in enumerate((("train", 24), ("dev", 8), ("test", 8))):
        blocks = ["".join(f"{w} {t}\n" for w, t in sentence) for sentence in tagged(n, seed)]
        (folder / f"{name}.txt").write_text("\n".join(blocks))
    rng = random.Random(7)
    rows = [[word, *(f"{rng.gauss(0, 1):.3f}" for _ in range(6))] for word in GLOVE_WORDS]
    (folder / "glove.txt").write_text("".join(" ".join(row) + "\n" for row in rows))


def squad(answer: str = "in Paris", start: int = 6) -> str:
    """One paragraph with two questions; the second's answer is as given."""
    questions = [
        {"id": "1", "question": "Who rested?", "answers": [{"text": "Anna", "answer_start": 0}]},
        {"id": "2", "question": "Where?", "answers": [{"text": answer, "answer_start": start}]},
    ]
    text = "Anna, in Paris, rested."
    return json.dumps(
        {"data": [{"title": "t", "paragraphs": [{"context": text, "qas": questions}]}]}
    )
