"""The objective of context2vec: from the words before and after a place, tell the word that stands
there from words drawn by chance. Words that are not listed are read, but not predicted.
"""

# B rows, T steps, N places, k words drawn for each
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.checkpoint.sources import load
from elmore.checkpoint.word_models import word_checkpoint, write_word_files
from elmore.errors import ConfigError
from elmore.files.atomic import write_text
from elmore.models.context2vec import Context2vec, told_apart_loss
from elmore.nn.word_pairs import Ids
from elmore.pretrain.config import (
    Asked,
    Context2vecRunConfig,
    Run,
    context2vec_config,
    rounding,
)
from elmore.pretrain.line_batches import LineBatches, Lines
from elmore.pretrain.piece_corpus import PieceCorpus, write_texts
from elmore.pretrain.sentences import Counts
from elmore.pretrain.word_corpus import (
    CORPUS,
    VALID,
    check_vocabulary,
    chosen_vocabulary,
    draw_table,
)
from elmore.text.subwords import WholeWords
from elmore.text.vocabulary import MARKS, VOCABULARY, Vocabulary
from elmore.train.loop import Loss, seed_step
from elmore.train.optimizer import Group, by_decay
from elmore.train.precision import Rounding, products_in
from elmore.train.world import World

_VALID_SEED = 0


def prepare(
    asked: Asked, files: list[Path], counts: Counts, steps: int | None
) -> tuple[Context2vecRunConfig, list[str]]:
    """The words, and the corpus as their ids."""
    config, folder = context2vec_config(asked), asked.output
    if asked.source is not None:
        raise ConfigError("context2vec is learned from the text alone; leave out --from.")
    vocabulary = chosen_vocabulary(asked, config.vocabulary, counts)
    texts = {CORPUS: files, VALID: [] if asked.valid is None else [asked.valid]}
    write_texts(asked, texts, WholeWords(vocabulary).pieces)
    write_text(folder / VOCABULARY, "".join(vocabulary.lines()))
    model = config.model.model_copy(update={"n_words": len(vocabulary)})
    return config.model_copy(update={"model": model}), [f"{len(vocabulary):,} words are predicted."]


def resumed_config(run: Run, asked: Asked) -> Context2vecRunConfig:
    check_vocabulary(asked)
    config, kept = context2vec_config(asked), context2vec_config(run).model
    model = config.model.model_copy(update={"n_words": kept.n_words})
    return config.model_copy(update={"model": model})


def steps_per_epoch(run: Run) -> float:
    """About: lines are padded."""
    return max(1.0, (run.words + run.sentences) / context2vec_config(run).batches.pieces)


def build(run: Run, folder: Path, world: World, newest: Path | None) -> "Context2vecObjective":
    config = context2vec_config(run)
    torch.manual_seed(config.loop.seed)  # every process begins with the same numbers
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    model = Context2vec(config.model)
    if newest is not None:
        model.load_state_dict(load(newest).model.state_dict())
    corpus = PieceCorpus(folder / CORPUS)
    counts = corpus.counts(len(vocabulary))
    counts[: len(MARKS)] = 0
    batches = LineBatches(
        corpus,
        config.batches,
        WholeWords(vocabulary),
        seed=config.loop.seed,
        rank=world.rank,
        n_ranks=world.size,
    )
    return Context2vecObjective(
        model.requires_grad_(True).train().to(world.device()),
        vocabulary,
        batches,
        Draws(draw_table(counts, config.power), config.negatives, vocabulary.unknown),
        _held_out(folder / VALID, config, vocabulary) if run.valid else [],
        config.loop.seed,
        rounding(run),
    )


def _held_out(folder: Path, config: Context2vecRunConfig, vocabulary: Vocabulary) -> list[Lines]:
    """Some batches of one pass."""
    words = WholeWords(vocabulary)
    batches = LineBatches(PieceCorpus(folder), config.batches, words, seed=_VALID_SEED)
    found: list[Lines] = []
    while batches.epoch == 0 and sum(int(n.sum()) for _, n in found) < config.valid_words:
        found.append(next(batches))
    return found


class Draws:
    """Which places of a batch are predicted, and the words drawn for each."""

    def __init__(self, table: Ids, k: int, unknown: int):
        self.table, self.k, self.unknown = table, k, unknown

    def __call__(
        self, lines: Lines, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """(B, T - 2), and (N, k)."""
        ids, lengths = lines
        words = ids[:, 1:-1]
        known = np.arange(words.shape[1]) < (lengths - 2)[:, None]
        known &= words != self.unknown
        places = rng.integers(0, len(self.table), (int(known.sum()), self.k))
        return known, self.table[places].astype(np.int64)


class Context2vecObjective:
    """The summed loss of every place."""

    higher_is_better = False

    def __init__(
        self,
        model: Context2vec,
        vocabulary: Vocabulary,
        batches: LineBatches,
        draws: Draws,
        valid: list[Lines],
        seed: int,
        precision: Rounding = "float32",
    ):
        self.module: nn.Module = model
        self.model, self.vocabulary, self.batches = model, vocabulary, batches
        self.draws, self.valid, self.seed, self.precision = draws, valid, seed, precision
        self.device = model.vectors.device

    def groups(self) -> list[Group]:
        """Of the tables only the rows that a step has used are changed."""
        tables = self.model.floors()[-1]
        apart = {id(p) for p in tables}
        rest = [p for p in self.model.parameters() if id(p) not in apart]
        return [*by_decay(self.model, rest), Group(tables, by_rows=True)]

    def begin(self, step: int, done: float) -> None:
        seed_step(self.seed, step, self.batches.rank)

    def next_loss(self, rng: np.random.Generator) -> Loss:
        with products_in(self.precision, self.device):
            scores, same = self._scores(next(self.batches), rng)
        return Loss(told_apart_loss(scores, same), max(1, len(scores)))

    def _scores(self, lines: Lines, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """(N, 1 + k), and where a word drawn is the word itself (N, k)."""
        arrays = (*lines, *self.draws(lines, rng))
        ids, lengths, known, drawn = (torch.from_numpy(a).to(self.device) for a in arrays)
        same = drawn == ids[:, 1:-1][known].unsqueeze(1)
        return self.model.scores(ids, lengths, drawn, known), same

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The loss of a place, and how often the word that stands there has the highest score."""
        rng, total, first, count = np.random.default_rng(_VALID_SEED), 0.0, 0, 0
        for lines in self.valid:
            scores, same = self._scores(lines, rng)
            total += float(told_apart_loss(scores, same))
            others = scores[:, 1:].masked_fill(same, -torch.inf).amax(dim=1)
            first, count = first + int((scores[:, 0] > others).sum()), count + len(scores)
        return {"loss": total / count, "told_apart": first / count} if count else {}

    def untrained(self) -> str | None:
        return None

    def state(self) -> Any:
        return self.batches.state()

    def restore(self, state: Any) -> None:
        self.batches.restore(state)

    def save(self, folder: Path) -> None:
        write_word_files(word_checkpoint(self.model, self.vocabulary), folder)
