"""The objective of word2vec's skip-grams with negative samples: from each word near it, tell the
word in the middle from words drawn by chance. A step is a stretch of text, learned pair by pair.
"""

# V words, D vector dim, P pairs, k words drawn for each
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.word_models import word_checkpoint, write_word_files
from elmore.errors import ConfigError
from elmore.models.static_table import StaticConfig, StaticTable
from elmore.nn.word_pairs import Ids, SkipGramTables
from elmore.pretrain.config import Asked, Run, sgns_config
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.pretrain.sentences import Counts
from elmore.pretrain.static_config import SgnsConfig, StaticRunConfig
from elmore.pretrain.word_corpus import (
    CORPUS,
    VALID,
    SkipGramMaker,
    block,
    check_vocabulary,
    n_blocks,
    prepare_words,
)
from elmore.text.vocabulary import MARKS, VOCABULARY, Vocabulary
from elmore.train.loop import Loss
from elmore.train.optimizer import Group
from elmore.train.world import World


def prepare(
    asked: Asked, files: list[Path], counts: Counts, steps: int | None
) -> tuple[SgnsConfig, list[str]]:
    config = sgns_config(asked)
    vocabulary = prepare_words(asked, config, files, counts)
    corpus = PieceCorpus(asked.output / CORPUS)
    return config, [f"{corpus.n_pieces:,} words of text have one of {len(vocabulary):,} vectors."]


def resumed_config(run: Run, asked: Asked) -> SgnsConfig:
    check_vocabulary(asked)
    return sgns_config(asked)


def steps_per_epoch(run: Run) -> float:
    return n_blocks(run.words, sgns_config(run).words)


def build(run: Run, folder: Path, world: World, newest: Path | None) -> "SgnsObjective":
    """With fresh vectors: the loop restores those of the newest checkpoint."""
    config = sgns_config(run)
    refuse_several(world)
    corpus, vocabulary = PieceCorpus(folder / CORPUS), Vocabulary.read(folder / VOCABULARY)
    maker = SkipGramMaker(config, corpus.counts(len(vocabulary)))
    valid = maker.held_out(PieceCorpus(folder / VALID)) if run.valid else None
    return SgnsObjective(config, corpus, vocabulary, maker, valid, int(steps_per_epoch(run)))


def refuse_several(world: World) -> None:
    if world.size > 1:
        raise ConfigError(
            f"{world.size} processes; static vectors are learned pair after pair, by one process."
        )


def rate_at(config: StaticRunConfig, step: int, done: float) -> float:
    return config.loop.optimizer.lr * config.loop.schedule.factor(step, done, 0)


def first_vectors(n_words: int, width: int, most: float, seed: int) -> Tensor:
    """Random and small, (V, width), at most ±`most`; of the marks, zero."""
    generator = torch.Generator().manual_seed(seed)
    vectors = (2 * torch.rand(n_words, width, generator=generator) - 1) * most
    vectors[: len(MARKS)] = 0.0
    return vectors


def told_apart(words: Tensor, contexts: Tensor, pairs: tuple[Ids, Ids]) -> float:
    """The share of pairs in which the word that was met has the highest score: 1 / (1 + k) by
    chance. `contexts` (V, D) are scored by their product with `words`."""
    predicting, predicted = (torch.from_numpy(ids).long() for ids in pairs)
    scores = torch.einsum("pd,pkd->pk", words[predicting], contexts[predicted])  # (P, 1 + k)
    others = scores[:, 1:].masked_fill(predicted[:, 1:] == predicted[:, :1], -torch.inf)
    return float((scores[:, 0] > others.amax(dim=1)).double().mean()) if len(scores) else 0.0


class SgnsObjective:
    """Both tables, changed in place."""

    higher_is_better = True

    def __init__(
        self,
        config: SgnsConfig,
        corpus: PieceCorpus,
        vocabulary: Vocabulary,
        maker: SkipGramMaker,
        valid: tuple[Ids, Ids] | None,
        blocks: int,
    ):
        self.config, self.corpus, self.vocabulary = config, corpus, vocabulary
        self.maker, self.valid, self.blocks = maker, valid, blocks
        model = StaticTable(StaticConfig(n_words=len(vocabulary), dim=config.dim))
        start = first_vectors(len(vocabulary), config.dim, 1 / config.dim, config.loop.seed)
        model.vectors.data.copy_(start)
        self.module: nn.Module = model.requires_grad_(False)
        self.model = model
        self.tables = SkipGramTables(model.vectors.data, torch.zeros_like(start))
        self.place, self.rate = 0, 0.0

    def groups(self) -> list[Group]:
        return []

    def begin(self, step: int, done: float) -> None:
        self.rate = rate_at(self.config, step, done)

    def next_loss(self, rng: np.random.Generator) -> Loss:
        ids, sentences = block(self.corpus, self.place % self.blocks, self.blocks)
        self.place += 1
        pairs = self.maker.pairs(ids, sentences, rng)
        loss = self.tables.learn(*pairs, self.rate)
        return Loss(torch.tensor(loss, dtype=torch.float64), max(1, len(pairs[0])))

    def validate(self) -> dict[str, float]:
        if self.valid is None:
            return {}
        return {"told_apart": told_apart(self.tables.words, self.tables.contexts, self.valid)}

    def untrained(self) -> str | None:
        return None

    def state(self) -> Any:
        """The tables too: what is saved as the model has no contexts."""
        return {"place": self.place, "words": self.tables.words, "contexts": self.tables.contexts}

    def restore(self, state: Any) -> None:
        self.place = int(state["place"])
        self.tables.words.copy_(state["words"])
        self.tables.contexts.copy_(state["contexts"])

    def save(self, folder: Path) -> None:
        write_word_files(word_checkpoint(self.model, self.vocabulary), folder)
