"""The objective of GloVe: the product of two words' vectors is the logarithm of how often they are
met near each other. The text is counted once; a step is a part of the counts.
"""

# V words, D vector dim, M distinct pairs
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from elmore.checkpoint.word_models import word_checkpoint, write_word_files
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_file
from elmore.models.static_table import StaticConfig, StaticTable
from elmore.nn.word_pairs import COUNTED, GloveTables, Ids
from elmore.pretrain.config import Asked, Run, glove_config
from elmore.pretrain.objectives.sgns import first_vectors, rate_at, refuse_several, told_apart
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.pretrain.sentences import Counts
from elmore.pretrain.static_config import GloveConfig, SgnsConfig
from elmore.pretrain.static_start import count_neighbors
from elmore.pretrain.word_corpus import (
    CORPUS,
    VALID,
    SkipGramMaker,
    check_vocabulary,
    n_blocks,
    prepare_words,
)
from elmore.text.vocabulary import VOCABULARY, Vocabulary
from elmore.train.loop import Loss
from elmore.train.optimizer import Group
from elmore.train.world import World

PAIRS = "pairs.npy"
"""A file of a run: records of `COUNTED`, in random order."""
_CHUNK = 1_000_000  # words counted together


def prepare(
    asked: Asked, files: list[Path], counts: Counts, steps: int | None
) -> tuple[GloveConfig, list[str]]:
    config, folder = glove_config(asked), asked.output
    vocabulary = prepare_words(asked, config, files, counts)
    pairs = counted_pairs(PieceCorpus(folder / CORPUS), len(vocabulary), config)
    with atomic_file(folder / PAIRS) as path, path.open("wb") as file:
        np.save(file, pairs)
    return config, [f"{len(pairs):,} pairs of {len(vocabulary):,} words were counted."]


def counted_pairs(corpus: PieceCorpus, n_words: int, config: GloveConfig) -> NDArray[np.void]:
    """How often two words are met, each pair once, in an order that depends on the seed alone. A
    word beside itself is met from both sides."""
    (keys, weights), _ = count_neighbors(corpus.chunks(_CHUNK), n_words, n_words, config.window)
    first, second = keys // n_words, keys % n_words
    low, high = np.minimum(first, second), np.maximum(first, second)
    keys, place = np.unique(low * n_words + high, return_inverse=True)
    total = np.bincount(place, weights, minlength=len(keys))
    pairs = np.empty(len(keys), COUNTED)
    pairs["first"], pairs["second"] = keys // n_words, keys % n_words
    pairs["count"] = np.where(pairs["first"] == pairs["second"], 2 * total, total)
    if not len(pairs):
        raise InputError("The corpus has no two words in one sentence; expected sentences.")
    return pairs[np.random.default_rng(config.loop.seed).permutation(len(pairs))]


def resumed_config(run: Run, asked: Asked) -> GloveConfig:
    check_vocabulary(asked)
    return glove_config(asked)


def steps_per_epoch(run: Run) -> float:
    return n_blocks(run.words, glove_config(run).words)


def build(run: Run, folder: Path, world: World, newest: Path | None) -> "GloveObjective":
    """With fresh vectors: the loop restores those of the newest checkpoint."""
    config = glove_config(run)
    refuse_several(world)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    valid = None
    if run.valid:
        maker = SkipGramMaker(
            SgnsConfig(valid_words=config.valid_words),
            PieceCorpus(folder / CORPUS).counts(len(vocabulary)),
        )
        valid = maker.held_out(PieceCorpus(folder / VALID))
    blocks = int(steps_per_epoch(run))
    return GloveObjective(config, _read_pairs(folder / PAIRS), vocabulary, valid, blocks)


def _read_pairs(path: Path) -> NDArray[np.void]:
    try:
        pairs = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path}: cannot be read ({error}); start the run anew.") from None
    if pairs.dtype != COUNTED or pairs.ndim != 1:
        raise FormatError(f"{path}: not the pairs of a run; start the run anew.")
    found: NDArray[np.void] = pairs
    return found


class GloveObjective:
    """Both tables and their sums, changed in place; a word's vector is the sum of its two."""

    higher_is_better = True

    def __init__(
        self,
        config: GloveConfig,
        pairs: NDArray[np.void],
        vocabulary: Vocabulary,
        valid: tuple[Ids, Ids] | None,
        blocks: int,
    ):
        self.config, self.pairs, self.vocabulary = config, pairs, vocabulary
        self.valid, self.blocks = valid, blocks
        n_words, dim, seed = len(vocabulary), config.dim, config.loop.seed
        words, contexts = (first_vectors(n_words, dim + 1, 0.5 / dim, seed + i) for i in (0, 1))
        self.tables = GloveTables(
            words, contexts, torch.ones_like(words), torch.ones_like(contexts)
        )
        self.model = StaticTable(StaticConfig(n_words=n_words, dim=dim)).requires_grad_(False)
        self.module: nn.Module = self.model
        self.place, self.rate = 0, 0.0

    def groups(self) -> list[Group]:
        return []

    def begin(self, step: int, done: float) -> None:
        self.rate = rate_at(self.config, step, done)

    def next_loss(self, rng: np.random.Generator) -> Loss:
        del rng  # the pairs are in random order already
        i, n = self.place % self.blocks, len(self.pairs)
        self.place += 1
        some = np.array(self.pairs[n * i // self.blocks : n * (i + 1) // self.blocks])
        config = self.config
        loss = self.tables.learn(some, self.rate, most=config.most, power=config.power)
        return Loss(torch.tensor(loss, dtype=torch.float64), max(1, len(some)))

    def validate(self) -> dict[str, float]:
        if self.valid is None:
            return {}
        words, contexts = self.tables.words[:, :-1], self.tables.contexts[:, :-1]
        return {"told_apart": told_apart(words, contexts, self.valid)}

    def untrained(self) -> str | None:
        return None

    def state(self) -> Any:
        tables = {name: getattr(self.tables, name) for name in GloveTables.__slots__}
        return {"place": self.place, **tables}

    def restore(self, state: Any) -> None:
        self.place = int(state["place"])
        for name in GloveTables.__slots__:
            getattr(self.tables, name).copy_(state[name])

    def save(self, folder: Path) -> None:
        self.model.vectors.copy_((self.tables.words + self.tables.contexts)[:, :-1])
        write_word_files(word_checkpoint(self.model, self.vocabulary), folder)
