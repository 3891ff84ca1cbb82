"""Small tasks that a small model learns in a second: what a name is, the word before it says."""

from pathlib import Path

import numpy as np

from elmore.tasks.classification import Classification, Labelled
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.encoders.source import OwnConfig
from elmore.tasks.fit import FitConfig
from elmore.tasks.tagging import Tagged, Tagging

NAMES = ["Florence", "Jordan", "Lincoln", "Sydney", "Victoria"]
OWN = OwnConfig(word_dim=8, char_dim=4, filters=((2, 4),))


def tagged(n: int, seed: int) -> list[Tagged]:
    """`we met Mrs Jordan` is a person, `we met in Jordan` a place, of one word or two."""
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(n):
        cue, kind = [("Mrs", "PER"), ("in", "LOC")][rng.integers(2)]
        name = [str(word) for word in rng.choice(NAMES, size=rng.integers(1, 3), replace=False)]
        tags = [f"S-{kind}"] if len(name) == 1 else [f"B-{kind}", f"E-{kind}"]
        before = ["we", "met"][: int(rng.integers(3))]
        words = (*before, cue, *name, ".")
        examples.append(Tagged(words, (*["O"] * (len(before) + 1), *tags, "O")))
    return examples


def columns(examples: list[Tagged]) -> str:
    """As a file."""
    blocks = [
        "".join(f"{word} {tag}\n" for word, tag in zip(e.words, e.tags, strict=True))
        for e in examples
    ]
    return "\n".join(blocks)


def labelled(n: int, seed: int) -> list[Labelled]:
    """`not` turns what follows round."""
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(n):
        turned, good = rng.integers(2), rng.integers(2)
        words = ("it", "is", *["not"] * int(turned), ["bad", "good"][good], ".")
        examples.append(Labelled(words, "good" if turned != good else "bad"))
    return examples


def tagging_config(source: str = "none", **changes: object) -> FitConfig:
    encoder = EncoderConfig(source=source, own=OWN)
    task = Tagging(hidden=12, dropout=0.1)
    settings = {"task": task, "encoder": encoder, "epochs": 6, "batch": 8, "lr": 0.02, **changes}
    return FitConfig.model_validate(settings)


def classification_config(**changes: object) -> FitConfig:
    task = Classification(hidden=16, dropout=0.0)
    settings = {"task": task, "encoder": EncoderConfig(own=OWN), "epochs": 8, "batch": 8, **changes}
    return FitConfig.model_validate({"lr": 0.02, **settings})


def write_static(folder: Path, dim: int = 6) -> Path:
    """Static vectors of some of the words, all in lower case."""
    rng = np.random.default_rng(0)
    words = ["we", "met", "mrs", "in", "jordan", "sydney"]
    path = folder / "static.npz"
    np.savez(path, words=np.array(words), vectors=rng.normal(size=(6, dim)).astype(np.float16))
    return path
