"""Five tasks that a tiny BERT learns in seconds, of words that are in its vocabulary."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmore.checkpoint.bert import bert_checkpoint, write_bert
from elmore.config import override
from elmore.models.bert import Bert
from elmore.tasks.classification import Labelled
from elmore.tasks.fit import FitConfig
from elmore.tasks.readers.pairs import Pair
from elmore.tasks.readers.squad import Paragraph, Question
from elmore.tasks.recipes import find_task
from elmore.tasks.tagging import Tagged
from tests.tiny_bert import tiny_config, tiny_wordpiece

OPENINGS = (("we", "sat", "on"), ("the", "grass"), ("one", "of", "the"))


def write_tiny_bert(folder: Path, **changed: Any) -> Path:
    """As it is before its pretraining: it learns from there."""
    torch.manual_seed(0)
    sizes = {"dim": 24, "dropout": 0.02, "attention_dropout": 0.02}
    model = Bert(tiny_config(**(sizes | changed)))
    write_bert(bert_checkpoint(model, tiny_wordpiece()), folder)
    return folder


def _sentence(rng: random.Random) -> tuple[tuple[str, ...], str, int]:
    """Words, a noun among them that decides, and its place."""
    opening, noun = rng.choice(OPENINGS), rng.choice(("river", "money"))
    return (*opening, noun, "bank", "."), noun, len(opening)


def entities(rng: random.Random) -> Tagged:
    """A river is a place, and money is an organization."""
    words, noun, place = _sentence(rng)
    kind = "LOC" if noun == "river" else "ORG"
    tags = ["O"] * len(words)
    tags[place] = f"S-{kind}"
    return Tagged(words, tuple(tags))


def parts_of_speech(rng: random.Random) -> Tagged:
    found = entities(rng)
    return Tagged(found.words, tuple("X" if tag == "O" else tag[2:] for tag in found.tags))


def sentiment(rng: random.Random) -> Labelled:
    words, noun, place = _sentence(rng)
    return Labelled((*words[:place], *3 * (noun,)), "good" if noun == "river" else "bad")


def entailment(rng: random.Random) -> Pair:
    words, noun, _ = _sentence(rng)
    return Pair(("we", "lent", "money"), words, "yes" if noun == "money" else "no")


def question(rng: random.Random) -> Question:
    words, noun, place = _sentence(rng)
    return Question("1", (noun, "?"), paragraph(words), (noun,), ((place, place),))


def paragraph(words: tuple[str, ...]) -> Paragraph:
    starts = [sum(len(word) + 1 for word in words[:i]) for i in range(len(words))]
    ends = [start + len(word) for start, word in zip(starts, words, strict=True)]
    return Paragraph(" ".join(words), words, tuple(starts), tuple(ends))


class TinyTask(NamedTuple):
    """A task by name, and how one example of it is made."""

    name: str
    make: Callable[[random.Random], Any]
    pooled: bool
    """Whether the head uses what is pooled."""

    def examples(self, n: int, seed: int) -> list[Any]:
        rng = random.Random(seed)
        return [self.make(rng) for _ in range(n)]

    def config(self, source: str, *settings: str) -> FitConfig:
        given = [f"encoder.source={source}", "tuning.lr=0.01", "tuning.batch=4"]
        return override(find_task(self.name), [*given, *settings])


TASKS = [
    TinyTask("ner", entities, pooled=False),
    TinyTask("pos", parts_of_speech, pooled=False),
    TinyTask("sst", sentiment, pooled=True),
    TinyTask("entailment", entailment, pooled=True),
    TinyTask("qa", question, pooled=False),
]
