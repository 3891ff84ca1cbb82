"""The objective of a causal language model: predict each piece of a line, and its end, from those
before it. `prepare` and `build` are what `pretrain/run.py` asks for.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.causal import (
    causal_checkpoint,
    causal_lm,
    subwords_of,
    write_causal_files,
)
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.errors import ConfigError
from elmore.files.atomic import remove
from elmore.models.causal import Causal, CausalLM, StatePenalty, with_dropout_of
from elmore.nn.gpt import GPT
from elmore.nn.transformer import Attention
from elmore.pretrain.config import (
    RUN_VERSION,
    Asked,
    AutoencoderConfig,
    CausalRunConfig,
    Run,
    causal_config,
    rounding,
)
from elmore.pretrain.line_batches import LineBatches, Lines
from elmore.pretrain.neighbor_start import before, look_at_neighbors
from elmore.pretrain.piece_corpus import PieceCorpus, write_texts
from elmore.pretrain.piece_start import start_table, write_piece_start
from elmore.pretrain.sentences import Counts
from elmore.text.subwords import BytePairs, Subwords, WholeWords, read_subwords
from elmore.text.vocabulary import Vocabulary
from elmore.train.loop import Loss, seed_step
from elmore.train.optimizer import Group, by_decay
from elmore.train.precision import Rounding, products_in
from elmore.train.world import World

SUBWORDS, CORPUS, VALID = "subwords", "pieces", "valid"
"""Folders of a run: the files of the vocabulary, and the texts as piece ids."""
_VALID_SEED = 0


def prepare(
    asked: Asked, files: list[Path], counts: Counts, steps: int | None
) -> tuple[CausalRunConfig, list[str]]:
    """The pieces, and the corpus as piece ids."""
    config, folder = causal_config(asked), asked.output
    source = None if asked.source is None else load(asked.source, heads=True)
    subwords = _subwords(asked, config, counts, source)
    config = _trained_config(config, len(subwords), source, asked.source)
    if config.attention_start == "neighbors" and config.model.context.kind != "gpt":
        found = config.model.context.kind
        raise ConfigError(f"attention_start=neighbors is for a GPT, but model.context is {found}.")
    texts = {CORPUS: files, VALID: [] if asked.valid is None else [asked.valid]}
    folder.mkdir(parents=True, exist_ok=True)
    remove(folder / SUBWORDS)  # of a run that ended before its first checkpoint
    (folder / SUBWORDS).mkdir()
    for name, content in subwords.files().items():
        (folder / SUBWORDS / name).write_bytes(content)
    write_texts(asked, texts, subwords.pieces)
    corpus = PieceCorpus(folder / CORPUS)
    notes = [f"{corpus.n_pieces:,} pieces, {len(subwords):,} kinds."]
    if source is None and config.table_start == "static":
        shape = config.model.n_pieces, config.model.dim
        notes += write_piece_start(folder, corpus, shape, config.loop.seed, subwords.end)
    return config, notes


def _subwords(
    asked: Asked, config: CausalRunConfig, counts: Counts, source: Checkpoint | None
) -> Subwords:
    """The source's own, those of a folder, or new ones from the corpus."""
    if source is not None:
        if asked.vocabulary is not None:
            raise ConfigError(f"{asked.source} has a vocabulary of its own; leave --vocabulary.")
        return subwords_of(source)
    wanted, given = config.vocabulary, asked.vocabulary
    if given is not None:
        return read_vocabulary(given)
    if wanted.kind == "words":
        found = Vocabulary.from_counts(
            counts.words, min_count=wanted.min_count, max_size=wanted.size
        )
        return WholeWords(found)
    return BytePairs.trained(counts.words, wanted.size, wanted.min_count)


def read_vocabulary(given: Path) -> Subwords:
    """Of a folder with vocab.json and merges.txt, of a model or its run, or of a list of words."""
    if given.is_file():
        return WholeWords(Vocabulary.read(given))
    if (given / SUBWORDS).is_dir():
        return read_subwords(given / SUBWORDS)
    return read_subwords(given)


def _trained_config(
    config: CausalRunConfig, n_pieces: int, source: Checkpoint | None, name: str | None
) -> CausalRunConfig:
    """With the sizes of the source or of the vocabulary."""
    model = config.model.model_copy(update={"n_pieces": n_pieces})
    if source is not None:
        theirs = causal_lm(source, str(name)).causal.config
        dropped = with_dropout_of(theirs.context, model.context)
        model = theirs.model_copy(update={"context": dropped})
    if isinstance(config, AutoencoderConfig) and not model.has_state:
        raise ConfigError(
            "A sequence autoencoder writes from a state, which a Transformer has not; expected an "
            "LSTM."
        )
    most = model.max_positions
    if most is not None and config.batches.longest + 1 > most:
        raise ConfigError(
            f"batches.longest is {config.batches.longest}, but the model has {most} positions, "
            "one for the mark."
        )
    return config.model_copy(update={"model": model})


def resumed_config(run: Run, asked: Asked) -> CausalRunConfig:
    """The model's sizes and its start are the run's; a vocabulary that is given must be too."""
    config, was = causal_config(asked), causal_config(run)
    if asked.vocabulary is not None:
        kept = read_subwords(asked.output / SUBWORDS)
        if read_vocabulary(asked.vocabulary).files() != kept.files():
            raise ConfigError(f"{asked.vocabulary}: not the vocabulary of {asked.output}; omit it.")
    now = config.model.model_copy(update={"n_pieces": was.model.n_pieces})
    if run.source is not None:
        dropped = with_dropout_of(was.model.context, now.context)
        now = was.model.model_copy(update={"context": dropped})
    starts = {"table_start": was.table_start, "attention_start": was.attention_start}
    return config.model_copy(update={"model": now, **starts})


def steps_per_epoch(run: Run) -> float:
    """About: how many pieces a word has is not known before the run."""
    return max(1.0, 1.3 * (run.words + run.sentences) / causal_config(run).batches.pieces)


def build(
    run: Run, folder: Path, world: World, newest: Path | None, kind: type[CausalLM] = CausalLM
) -> "CausalObjective":
    """`kind` is the model with its loss."""
    config = causal_config(run)
    torch.manual_seed(config.loop.seed)  # every process begins with the same numbers
    subwords = read_subwords(folder / SUBWORDS)
    at = newest or run.source
    model = _start(kind, config, None if at is None else load(at, heads=True), str(at))
    if at is None and config.table_start == "static":
        bias = model.softmax.bias if config.model.softmax_bias else None
        for table in {model.causal.pieces.weight, model.softmax.weight}:  # one if they are tied
            start_table(table, bias, folder)
    if at is None and config.attention_start == "neighbors":
        gpt = model.causal.context
        assert isinstance(gpt, GPT)
        attention, sides = gpt.blocks[0].attention, before(gpt.config.n_heads)
        assert isinstance(attention, Attention)
        look_at_neighbors(gpt.positions, model.causal.pieces, attention.qkv, sides)
    batches = LineBatches(
        PieceCorpus(folder / CORPUS),
        config.batches,
        subwords,
        backward=config.model.backward,
        seed=config.loop.seed,
        rank=world.rank,
        n_ranks=world.size,
    )
    return CausalObjective(
        model.requires_grad_(True).train().to(world.device()),
        batches,
        held_out(folder / VALID, config, subwords) if run.valid else [],
        floor_rate=config.floor_rate,
        precision=rounding(run),
        seed=config.loop.seed,
        rank=world.rank,
        version=run.version,
    )


def _start(
    kind: type[CausalLM], config: CausalRunConfig, source: Checkpoint | None, name: str
) -> CausalLM:
    """New weights, or those of a checkpoint."""
    model = kind(Causal(config.model), dropout=config.output_dropout, penalty=state_penalty(config))
    if source is not None:
        model.load_state_dict(causal_lm(source, name).state_dict())
    return model


def state_penalty(config: CausalRunConfig) -> StatePenalty | None:
    weights = config.large_states, config.sudden_states
    return StatePenalty(*weights) if any(weights) else None


def held_out(folder: Path, config: CausalRunConfig, subwords: Subwords) -> list[Lines]:
    """Some batches of one pass."""
    corpus, backward = PieceCorpus(folder), config.model.backward
    batches = LineBatches(corpus, config.batches, subwords, backward=backward, seed=_VALID_SEED)
    found: list[Lines] = []
    while batches.epoch == 0 and sum(int(n.sum()) for _, n in found) < config.valid_pieces:
        found.append(next(batches))
    return found


class CausalObjective:
    """The summed loss of every piece and end of line."""

    higher_is_better = False  # perplexity

    def __init__(
        self,
        model: CausalLM,
        batches: LineBatches,
        valid: list[Lines],
        *,
        floor_rate: float = 1.0,
        precision: Rounding = "float32",
        seed: int = 1,
        rank: int = 0,
        version: int = RUN_VERSION,
    ):
        self.module: nn.Module = model
        self.version = version
        self.floor_rate, self.precision = floor_rate, precision
        self.model, self.batches, self.valid = model, batches, valid
        self.device = next(model.parameters()).device
        self.seed, self.rank = seed, rank

    def groups(self) -> list[Group]:
        """All at one rate, or each layer at its own: the top one and the softmax at the whole rate.
        So a table that is the softmax too is not slowed down, as in fastai."""
        everything = list(self.module.parameters())
        if self.floor_rate == 1:
            return by_decay(self.module, everything)
        softmax = {id(p) for p in self.model.softmax.parameters()}
        floors = self.model.causal.floors()
        if self.version < 3:
            softmax -= {id(p) for floor in floors for p in floor}
        own = [p for p in everything if id(p) in softmax]
        first, *below = ([p for p in floor if id(p) not in softmax] for floor in floors)
        return [
            replace(group, rate=self.floor_rate**depth)
            for depth, floor in enumerate([own + first, *below])
            for group in by_decay(self.module, floor)
        ]

    def begin(self, step: int, done: float) -> None:
        seed_step(self.seed, step, self.rank)

    def next_loss(self, rng: np.random.Generator) -> Loss:
        del rng  # the full softmax draws nothing
        lines = self._tensors(next(self.batches))
        with products_in(self.precision, self.device):
            loss, count, penalty = self.model.penalized(*lines)
        if self.model.penalty is None:
            return Loss(loss, count)
        return Loss(loss + penalty, count, {"cross_entropy": loss.item()})

    def _tensors(self, lines: Lines) -> tuple[Tensor, Tensor]:
        ids, lengths = (torch.from_numpy(array).to(self.device) for array in lines)
        return ids, lengths

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        if not self.valid:
            return {}
        total, count = 0.0, 0
        for lines in self.valid:
            found = self.model.log_probs(*self._tensors(lines)).double()
            total, count = total - float(found.sum()), count + len(found)
        return {"perplexity": math.exp(min(total / count, 700.0))}

    def untrained(self) -> str | None:
        return None

    def state(self) -> Any:
        return self.batches.state()

    def restore(self, state: Any) -> None:
        self.batches.restore(state)

    def save(self, folder: Path) -> None:
        model, subwords = self.model, self.batches.subwords
        write_causal_files(causal_checkpoint(model.causal, subwords, model.softmax), folder)
